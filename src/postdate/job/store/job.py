"""Jobs: inserted as sets, loaded for execution."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple
from uuid import UUID

import msgspec

from postdate.core.ids import bucket_of
from postdate.database.connection import clock
from postdate.database.connection.column import Columns, call, compact
from postdate.database.connection.error import KeyTakenError, UniqueViolationError
from postdate.database.connection.query import Connection, fetch_one, query
from postdate.intake import store as idempotency
from postdate.intake.store import IdempotencyKey, IdempotencyRow


class NewJob(msgspec.Struct, frozen=True, gc=False):
    """A job about to be inserted; destination, policy and metadata are JSON already."""

    job_id: UUID
    tenant_id: int
    lane_id: int
    due_at: datetime
    effective_at: datetime
    expires_at: datetime | None
    destination: str
    policy: str | None
    payload: bytes | None
    content_type: str | None
    payload_ref: str | None
    spread_seconds: int | None = None
    metadata: str | None = None
    description: str | None = None
    schedule_id: UUID | None = None
    origin_id: UUID | None = None
    traceparent: str | None = None
    actor: str | None = None
    idempotency_key: UUID | None = None
    """The hash of the key that it was asked for under: the row of that key is proved by it."""

    unique_by: str | None = None
    key: str | None = None
    key_id: int | None = None
    """The number of the key in its lane."""


JOB_COLUMNS: Final = Columns(
    "job_columns",
    NewJob.__struct_fields__,
    repeated={
        *("tenant_id", "lane_id", "due_at", "effective_at"),
        *("destination", "content_type", "actor"),
    },
)
_ACCEPT: Final = call("job_accept", JOB_COLUMNS, "created_at")
_ACCEPT_KEYED: Final = call("job_accept", JOB_COLUMNS, "created_at", idempotency.COLUMNS)


class JobAsAccepted(msgspec.Struct, frozen=True):
    """A job as it was requested; destination and policy are JSON."""

    lane_id: int
    due_at: datetime
    expires_at: datetime | None
    destination: str
    policy: str | None
    payload: bytes | None
    content_type: str | None
    payload_ref: str | None
    spread_seconds: int | None
    metadata: dict[str, Any] | None
    description: str | None
    unique_by: str | None
    key: str | None


class JobKey(NamedTuple):
    """The key of a job; `revision` is that of its timer."""

    bucket: int
    tenant_id: int
    job_id: UUID
    revision: int = 0


class LoadedJob(msgspec.Struct, frozen=True, gc=False):
    """What a verdict rests on, in the revision that counts; a revised job has its payload too."""

    job_id: UUID
    effective_at: datetime
    expires_at: datetime | None
    policy_json: str | None
    payload: bytes | None = None
    content_type: str | None = None
    payload_ref: str | None = None


async def look(
    connection: Connection, keys: Sequence[IdempotencyKey]
) -> tuple[datetime, dict[IdempotencyKey, IdempotencyRow]]:
    """Return the database's time, and the rows of those of the keys that are known."""
    if not keys:
        return await clock.now(connection), {}
    first, *found = await connection.fetch(query("job_look"), *idempotency.key_columns(keys))
    return first["created_at"], idempotency.rows_of(found) if found else {}


async def accept(
    connection: Connection,
    jobs: Sequence[NewJob],
    created_at: datetime,
    keys: Sequence[IdempotencyRow] = (),
) -> None:
    """Insert jobs with their timers and keys; each job is its own first event."""
    new = JOB_COLUMNS.arrays(jobs)
    if not keys:
        await connection.execute(_ACCEPT, *new, created_at)
        return
    try:
        await connection.execute(_ACCEPT_KEYED, *new, created_at, *idempotency.COLUMNS.arrays(keys))
    except UniqueViolationError as error:
        # Another transaction was quicker with a key, or made the same id of it.
        raise KeyTakenError(str(error)) from error


async def as_accepted(connection: Connection, tenant_id: int, job_id: UUID) -> JobAsAccepted | None:
    """Return a job as it was accepted, whatever was changed since; None when it is gone."""
    return await fetch_one(
        connection, JobAsAccepted, "job_as_accepted", bucket_of(job_id), tenant_id, job_id
    )


async def load(connection: Connection, keys: Sequence[JobKey]) -> dict[UUID, LoadedJob]:
    """Load jobs, each in the revision that its timer names."""
    plain = [key[:3] for key in keys if not key.revision]
    revised = [key for key in keys if key.revision]
    rows = []
    if plain:
        buckets, tenants, ids = zip(*plain, strict=True)
        rows += await connection.fetch(
            query("job_load"), compact(buckets), compact(tenants), ids, min(ids), max(ids)
        )
    if revised:
        rows += await connection.fetch(query("job_load_revised"), *zip(*revised, strict=True))
    return {row[0]: LoadedJob(*row) for row in rows}
