"""Cancel jobs: how one ends, and requests to cancel jobs that a worker runs.

A request names a deadline. What happens first ends the job: a report of its worker, a claim after
its lease has run out, or at the deadline the expiry of any node.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final, Literal, Protocol, TypeVar
from uuid import UUID

import msgspec

from postdate.core.ids import bucket_of
from postdate.core.status import JobStatus
from postdate.database.connection.database import Database
from postdate.database.connection.query import Connection, Reader, query
from postdate.event.store.event import record_events
from postdate.job.spec.verdict import End, Move
from postdate.job.store import job_change
from postdate.job.store.job_change import JobEnd, OpenJob

CancelResult = Literal[
    "cancelled_before_claim", "cancelled_after_failure", "cancelled_in_doubt", "stopped_in_flight"
]


class Held(Protocol):
    """What names a job under a lease."""

    @property
    def job_id(self) -> UUID:
        """Return the job's id."""
        ...


H = TypeVar("H", bound=Held)

_DOUBTS: Final[Mapping[CancelResult, Literal["LAST", "EARLIER"]]] = {
    "stopped_in_flight": "LAST",
    "cancelled_in_doubt": "EARLIER",
}


def cancellation(job: OpenJob) -> JobEnd:
    """Return how a cancelled job ended."""
    due, result = job.ready_at or job.due_at or job.now, result_of(job)
    return JobEnd(
        job_id=job.job_id,
        attempt=job.attempt,
        status=JobStatus.CANCELLED,
        due_at=due,
        started_at=job.claimed_at,
        code=result,
        doubt=_DOUBTS.get(result),
    )


def result_of(job: OpenJob) -> CancelResult:
    """Return the result of a cancel: what all attempts so far let us know of the effect."""
    if job.claimed_at is not None:
        return "stopped_in_flight"
    if job.in_doubt:
        return "cancelled_in_doubt"
    return "cancelled_after_failure" if job.attempt else "cancelled_before_claim"


async def request(
    connection: Connection, tenant_id: int, job_id: UUID, actor: str, seconds: float
) -> datetime:
    """Ask the worker of a running job to stop; return until when it may go on."""
    where = (bucket_of(job_id), tenant_id, job_id)
    deadline: datetime = await connection.fetchval(
        query("job_cancel_request"), *where, actor, seconds
    )
    return deadline


async def spare_failures(
    database: Database, verdicts: Sequence[tuple[H, End | Move]]
) -> Sequence[tuple[H, End | Move]]:
    """Let failures of jobs that are to be cancelled be attempts, after which the jobs end."""
    failed: dict[int, list[UUID]] = defaultdict(list)
    for held, verdict in verdicts:
        if isinstance(verdict, End) and verdict.status == "FAILED" and verdict.tried:
            failed[bucket_of(held.job_id)].append(held.job_id)
    spared: set[UUID] = set()
    if failed:
        async with database.connection() as connection:
            for bucket, ids in sorted(failed.items()):
                rows = await connection.fetch(query("job_cancel_requested"), bucket, ids)
                spared |= {row[0] for row in rows}
    if not spared:
        return verdicts
    return [(held, _attempted(v) if held.job_id in spared else v) for held, v in verdicts]


def _attempted(verdict: End | Move) -> End | Move:
    if isinstance(verdict, Move) or verdict.status != "FAILED":
        return verdict
    return Move(
        seconds=0.0,
        tried="UNKNOWN" if verdict.unknown else "FAILED",
        code=verdict.code,
        error=verdict.error,
        http_status=verdict.http_status,
        response=verdict.response,
    )


async def due(reader: Reader, limit: int) -> dict[int, list[UUID]]:
    """Find requests whose deadline has passed, by bucket."""
    found: dict[int, list[UUID]] = defaultdict(list)
    for bucket, job_id in await reader.fetch(query("job_cancel_due"), limit):
        found[bucket].append(job_id)
    return found


async def end_requested(
    connection: Connection, bucket: int, job_ids: Sequence[UUID], *, claimed_anew: bool = False
) -> set[UUID]:
    """End those of these jobs that are to be cancelled; the caller has locked their timers.

    `claimed_anew` says that the caller has just claimed them, and that nothing ran since.
    """
    rows = await connection.fetch(query("job_cancel_requested"), bucket, list(job_ids))
    groups: dict[tuple[int, str], list[UUID]] = defaultdict(list)
    for job_id, tenant_id, actor in rows:
        groups[tenant_id, actor].append(job_id)
    ended: set[UUID] = set()
    for (tenant_id, actor), ids in groups.items():
        jobs = await job_change.lock(connection, tenant_id, bucket, sorted(ids))
        if claimed_anew:
            jobs = [_not_run(job) for job in jobs]
        await job_change.end(connection, tenant_id, [cancellation(job) for job in jobs])
        data = {job.job_id: {"result": result_of(job)} for job in jobs}
        await record_events(connection, tenant_id, "job.cancelled", actor, data)
        await connection.execute(query("job_cancel_settle"), bucket, ids)
        ended |= {job.job_id for job in jobs}
    return ended


def _not_run(job: OpenJob) -> OpenJob:
    return msgspec.structs.replace(job, claimed_at=None, attempt=job.attempt - 1)


async def end_overdue(connection: Connection, bucket: int, job_ids: Sequence[UUID]) -> set[UUID]:
    """End jobs at their deadline; jobs that another transaction has locked are left for later.

    A job that has ended in another way since keeps its outcome.
    """
    rows = await connection.fetch(query("job_cancel_requested"), bucket, list(job_ids))
    tenants: dict[int, list[UUID]] = defaultdict(list)
    for job_id, tenant_id, _ in rows:
        tenants[tenant_id].append(job_id)
    ended: set[UUID] = set()
    for tenant_id, ids in tenants.items():
        free, locked = await job_change.lock_free(connection, tenant_id, bucket, sorted(ids))
        ended |= await end_requested(connection, bucket, [job.job_id for job in free])
        gone = set(ids) - set(locked) - ended
        await connection.execute(query("job_cancel_settle"), bucket, sorted(gone))
    return ended
