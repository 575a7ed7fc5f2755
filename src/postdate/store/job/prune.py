"""Remove jobs that ended long ago, and dead letters that nobody wants."""

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from postdate.store.connection.query import Connection, query


class PruneStep(NamedTuple):
    """How many were removed, and after which job to go on; None at the end."""

    removed: int
    last: UUID | None


class Stretch(NamedTuple):
    """A tenant's jobs in one bucket, from an id on, that ended so many days ago."""

    bucket: int
    tenant_id: int
    days: int
    after: UUID


class KeyStretch(NamedTuple):
    """A tenant's keys of one scope in one bucket, from one on, unused for so many days."""

    bucket: int
    tenant_id: int
    scope: int
    days: int
    after: UUID


async def jobs(connection: Connection, stretch: Stretch, max_count: int) -> PruneStep:
    """Walk at most so many jobs and remove those that are old enough."""
    row = await connection.fetchrow(query("prune_jobs"), *stretch, max_count)
    return PruneStep(*row) if row else PruneStep(0, None)


async def keys(connection: Connection, stretch: KeyStretch, max_count: int) -> UUID | None:
    """Walk at most so many keys, forget those that are old enough; return where to go on."""
    row = await connection.fetchrow(query("prune_keys"), *stretch, max_count)
    return row["last"] if row else None


async def failed(
    connection: Connection, bucket: int, tenant_id: int, job_ids: Sequence[UUID]
) -> list[UUID]:
    """Remove those of these jobs that have failed, and say which they were."""
    removed: list[UUID] = await connection.fetchval(
        query("prune_failed"), bucket, tenant_id, list(job_ids)
    )
    return removed
