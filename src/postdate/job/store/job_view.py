"""Read jobs with their status."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from postdate.core.ids import bucket_of
from postdate.core.status import JobStatus
from postdate.database.connection.query import Reader, fetch_all, query
from postdate.lane.store.lane import Lane


class JobRow(msgspec.Struct, frozen=True):
    """A job beside its last revision, its timer and its outcome, where they exist."""

    job_id: UUID
    lane_id: int
    lane: str
    status: str
    due_at: datetime
    effective_at: datetime
    expires_at: datetime | None
    created_at: datetime
    destination: str
    policy: str | None
    payload: bytes | None
    content_type: str | None
    payload_ref: str | None
    spread_seconds: int | None
    metadata: dict[str, Any] | None
    description: str | None
    schedule_id: UUID | None
    origin_id: UUID | None
    revision: int
    attempt: int
    timer_due_at: datetime | None
    claimed_at: datetime | None
    outcome_due_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    code: str | None
    error: str | None
    http_status: int | None
    worker_id: UUID | None
    in_doubt: bool
    result: bytes | None
    unique_by: str | None
    key: str | None
    priority: int

    @property
    def is_lost(self) -> bool:
        """Return whether the job has neither timer nor outcome."""
        return self.status == JobStatus.PENDING and self.timer_due_at is None


class AttemptRow(msgspec.Struct, frozen=True):
    """One execution of a job."""

    attempt: int
    status: str
    due_at: datetime
    started_at: datetime
    finished_at: datetime
    retry_at: datetime | None
    http_status: int | None
    code: str | None
    error: str | None
    response: bytes | None
    worker_id: UUID | None


async def find(
    connection: Reader, tenant_id: int, job_ids: Sequence[UUID], *, payload: bool = False
) -> dict[UUID, JobRow]:
    """Read a tenant's jobs, with or without their payloads.

    The statement sets the tenant itself, so that it needs no transaction around it.
    """
    if not job_ids:
        return {}
    buckets, span = [bucket_of(job_id) for job_id in job_ids], (min(job_ids), max(job_ids))
    rows = await connection.fetch(
        query("job_view_find"), tenant_id, buckets, job_ids, *span, payload
    )
    return {row["job_id"]: JobRow(*row) for row in rows}


async def attempts(
    connection: Reader, tenant_id: int, job_id: UUID, after: int, limit: int
) -> list[AttemptRow]:
    """Read the executions of a job, in order."""
    return await fetch_all(
        connection,
        AttemptRow,
        "job_view_attempts",
        bucket_of(job_id),
        tenant_id,
        job_id,
        after,
        limit,
    )


async def count_before(
    reader: Reader, lanes: Sequence[Lane], due_at: datetime, max_count: int
) -> int:
    """Count the jobs of a lane that are due before an instant and wait, up to a limit."""
    places = [(bucket, lane.lane_id) for lane in lanes for bucket in lane.buckets]
    columns = zip(*places, strict=True)
    found: int = await reader.fetchval(query("job_view_before"), *columns, due_at, max_count)
    return min(found, max_count)
