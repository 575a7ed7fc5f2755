"""Changes to open jobs, decided while their timers are locked."""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, NamedTuple
from uuid import UUID

import asyncpg
import msgspec

from postdate.core.ids import bucket_of
from postdate.core.status import JobStatus
from postdate.database.connection.query import Connection, query


class OpenJob(msgspec.Struct, frozen=True):
    """A locked timer; `due_at` is None for a job in doubt."""

    job_id: UUID
    lane_id: int
    due_at: datetime | None
    claimed_at: datetime | None
    ready_at: datetime | None
    # The number of the current execution, or of the last one.
    attempt: int
    revision: int
    status: JobStatus
    now: datetime
    # Whether an attempt had no clear answer: its effect may have happened.
    in_doubt: bool = False


class JobEnd(NamedTuple):
    """The end of a job that an execution did not decide."""

    job_id: UUID
    attempt: int
    status: str
    due_at: datetime
    started_at: datetime | None
    code: str
    doubt: Literal["LAST", "EARLIER"] | None = None


class JobMove(NamedTuple):
    """A timer's new instant and revision; its lease ends."""

    job_id: UUID
    due_at: datetime
    revision: int
    # None where the priority stays: the timer stays in its row of the lane.
    lane_id: int | None = None


class Revision(NamedTuple):
    """The new values of a job; without `has_payload` the payload stays as it was."""

    job_id: UUID
    revision: int
    due_at: datetime
    effective_at: datetime
    expires_at: datetime | None
    policy: str | None
    lane_id: int
    has_payload: bool = False
    payload: bytes | None = None
    content_type: str | None = None
    payload_ref: str | None = None


async def lock(
    connection: Connection, tenant_id: int, bucket: int, job_ids: Sequence[UUID]
) -> list[OpenJob]:
    """Lock the timers of a tenant's jobs in one bucket; final jobs have none."""
    rows = await connection.fetch(query("job_change_lock"), bucket, list(job_ids), tenant_id)
    return await _opened(connection, bucket, rows)


async def lock_free(
    connection: Connection, tenant_id: int, bucket: int, job_ids: Sequence[UUID]
) -> tuple[list[OpenJob], list[UUID]]:
    """Lock the free timers of one bucket; return them and the jobs whose timers are locked."""
    asked = (bucket, list(job_ids), tenant_id)
    rows = await connection.fetch(query("job_change_lock_free"), *asked)
    free = await _opened(connection, bucket, rows)
    known = {job.job_id for job in free}
    left = [job_id for job_id in job_ids if job_id not in known]
    if not left:
        return free, []
    rows = await connection.fetch(query("job_change_open"), bucket, left, tenant_id)
    return free, [row[0] for row in rows]


async def _opened(
    connection: Connection, bucket: int, rows: Sequence[asyncpg.Record]
) -> list[OpenJob]:
    """Read locked timers, and which of their jobs are in doubt."""
    tried = [row["job_id"] for row in rows if row["attempt"] > 0]
    found = await connection.fetch(query("job_change_doubted"), bucket, tried) if tried else ()
    doubted = {row[0] for row in found}
    return [
        OpenJob(**{**row, "status": JobStatus(row["status"])}, in_doubt=row["job_id"] in doubted)
        for row in rows
    ]


async def end(connection: Connection, tenant_id: int, ends: Sequence[JobEnd]) -> None:
    """Remove timers and write the outcomes in their place."""
    if ends:
        ids = [ending.job_id for ending in ends]
        await connection.execute(query("job_change_remove"), [bucket_of(i) for i in ids], ids)
        await connection.execute(query("job_change_end"), tenant_id, *zip(*ends, strict=True))


async def move(connection: Connection, moves: Sequence[JobMove]) -> None:
    """Move locked timers to other instants."""
    if moves:
        ids, due, revisions, lanes = zip(*moves, strict=True)
        buckets = [bucket_of(job_id) for job_id in ids]
        await connection.execute(query("job_change_move"), buckets, ids, due, revisions, lanes)


async def revise(connection: Connection, tenant_id: int, revisions: Sequence[Revision]) -> None:
    """Insert revisions."""
    if revisions:
        columns = zip(*revisions, strict=True)
        await connection.execute(query("job_change_revise"), tenant_id, *columns)
