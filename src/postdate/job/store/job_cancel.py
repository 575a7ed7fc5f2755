"""Cancel jobs: a waiting job ends, the worker of a running one is asked to stop.

A request names a deadline. What happens first ends the job: a report of its worker, a claim after
its lease has run out, or at the deadline the expiry of any node.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Final, Literal, NamedTuple, Protocol, TypeVar
from uuid import UUID

import msgspec

from postdate.core.ids import bucket_of, by_bucket
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

CANCEL_SECONDS: Final = "job.cancel_deadline_seconds"
"""The setting that says how long workers may take to stop."""


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


class CancelOrder(NamedTuple):
    """Who cancels, how long workers may take to stop, and what the events say beside it."""

    actor: str
    seconds: float
    """With 0 they lose their leases now."""
    note: Mapping[str, object] = MappingProxyType({})


class Cancelled(NamedTuple):
    """The jobs that have ended, and until when others run that were asked to stop."""

    ended: Sequence[OpenJob]
    deadlines: Mapping[UUID, datetime]
    asked: int
    """How many of those were not asked before, or for a later deadline."""

    @property
    def changed(self) -> int:
        """Return how many jobs were changed."""
        return len(self.ended) + self.asked


async def cancel(
    connection: Connection, tenant_id: int, locked: Sequence[OpenJob], order: CancelOrder
) -> Cancelled:
    """Cancel jobs whose timers are locked; a job in doubt stays in doubt, a person decides."""
    waits = order.seconds > 0
    running = [job.job_id for job in locked if job.status is JobStatus.RUNNING and waits]
    asked = await _request(connection, tenant_id, running, order)
    kept = (JobStatus.RUNNING, JobStatus.UNKNOWN) if waits else (JobStatus.UNKNOWN,)
    ended = [job for job in locked if job.status not in kept]
    await job_change.end(connection, tenant_id, [cancellation(job) for job in ended])
    data = {job.job_id: {"result": result_of(job), **order.note} for job in ended}
    await record_events(connection, tenant_id, "job.cancelled", order.actor, data)
    return Cancelled(ended, {each.job_id: each.deadline for each in asked}, _fresh(asked))


class _CancelRequested(NamedTuple):
    """A running job whose worker is asked to stop; `fresh` says whether the deadline is new."""

    job_id: UUID
    deadline: datetime
    fresh: bool


def _fresh(asked: Iterable[_CancelRequested]) -> int:
    return sum(each.fresh for each in asked)


async def _request(
    connection: Connection, tenant_id: int, job_ids: Sequence[UUID], order: CancelOrder
) -> list[_CancelRequested]:
    """Ask the workers of running jobs to stop; a second request only brings a deadline forward."""
    asked: list[_CancelRequested] = []
    for bucket, ids in by_bucket(job_ids):
        where = (bucket, tenant_id, ids, order.actor, order.seconds)
        rows = await connection.fetch(query("job_cancel_request"), *where)
        asked += [_CancelRequested(*row) for row in rows]
    data = {e.job_id: {"deadline": e.deadline, **order.note} for e in asked if e.fresh}
    await record_events(connection, tenant_id, "job.cancel_requested", order.actor, data)
    return asked


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


async def due(reader: Reader, limit: int, test_tenant: int | None = None) -> dict[int, list[UUID]]:
    """Find requests whose deadline has passed, by bucket: of a tenant in test mode, or of others.

    The caller follows the clock of that tenant.
    """
    found: dict[int, list[UUID]] = defaultdict(list)
    for bucket, job_id in await reader.fetch(query("job_cancel_due"), limit, test_tenant):
        found[bucket].append(job_id)
    return found


async def next_deadline(reader: Reader, tenant_id: int) -> datetime | None:
    """Return the first deadline of a tenant's requests."""
    found: datetime | None = await reader.fetchval(query("job_cancel_next"), tenant_id)
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
