"""Jobs: inserted as sets, loaded for execution."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

import msgspec

from postdate.model.job.job import Destination, Given, decode_destination, decode_given
from postdate.store.connection.column import filled, same
from postdate.store.connection.database import Connection
from postdate.store.connection.query import query


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
    key: str | None = None


class JobKey(NamedTuple):
    """Where a job lies; `revision` is its timer's."""

    bucket: int
    tenant_id: int
    job_id: UUID
    revision: int = 0


class LoadedJob(msgspec.Struct, frozen=True, gc=False):
    """What an execution needs to know, with the revision that counts already applied."""

    bucket: int
    tenant_id: int
    job_id: UUID
    lane_id: int
    due_at: datetime
    effective_at: datetime
    expires_at: datetime | None
    destination_json: str
    policy_json: str | None
    payload: bytes | None
    content_type: str | None
    payload_ref: str | None
    metadata_json: str | None
    schedule_id: UUID | None
    origin_id: UUID | None
    traceparent: str | None

    @property
    def destination(self) -> Destination:
        """Return where it goes."""
        return decode_destination(self.destination_json)

    @property
    def given(self) -> Given:
        """Return the policy as asked for; `model.retry.resolve` completes it."""
        return decode_given(self.policy_json)


async def now(connection: Connection) -> datetime:
    """Ask the database for its time: the instant by which a set of jobs is judged."""
    found: datetime = await connection.fetchval(query("job_now"))
    return found


async def insert(connection: Connection, jobs: Sequence[NewJob], created_at: datetime) -> None:
    """Insert jobs with their timers; each is its own first event."""
    ids, *columns = zip(*map(msgspec.structs.astuple, jobs), strict=True)
    lean = [
        same(column) if name in _REPEATED else filled(column)
        for name, column in zip(NewJob.__struct_fields__[1:], columns, strict=True)
    ]
    await connection.execute(query("job_insert"), ids, *lean, created_at)


_REPEATED: Final = frozenset(
    {"tenant_id", "lane_id", "due_at", "effective_at", "destination", "content_type", "actor"}
)


async def load(connection: Connection, keys: Sequence[JobKey]) -> dict[UUID, LoadedJob]:
    """Load jobs for execution, each in the revision that its timer names."""
    plain = [key[:3] for key in keys if not key.revision]
    revised = [key for key in keys if key.revision]
    rows = []
    if plain:
        buckets, tenants, ids = zip(*plain, strict=True)
        rows += await connection.fetch(
            query("job_load"), same(buckets), same(tenants), ids, min(ids), max(ids)
        )
    if revised:
        rows += await connection.fetch(query("job_load_revised"), *zip(*revised, strict=True))
    return {row[2]: LoadedJob(*row) for row in rows}
