"""Remove jobs that are past their retention, and purged dead letters."""

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from postdate.database.connection.query import Connection, query


class PruneStep(NamedTuple):
    """How many jobs were removed, and after which job to continue; None at the end."""

    removed: int
    last: UUID | None


class TenantSearch(NamedTuple):
    """A search for tenants, after one, that have jobs in a bucket, or keys of a scope."""

    bucket: int
    scope: int | None
    after: int


class Stretch(NamedTuple):
    """A tenant's jobs in one bucket, from an id on, that ended a number of days ago."""

    bucket: int
    tenant_id: int
    days: int
    after: UUID


class KeyStretch(NamedTuple):
    """A tenant's keys of one scope in one bucket, from one on, unused for a number of days."""

    bucket: int
    tenant_id: int
    scope: int
    days: int
    after: UUID


async def tenants(connection: Connection, search: TenantSearch, max_count: int) -> list[int]:
    """Find the next tenants that have something to prune, in the order of their ids."""
    asked = (search.bucket, search.after, max_count)
    if search.scope is None:
        rows = await connection.fetch(query("prune_tenants_of_jobs"), *asked)
    else:
        rows = await connection.fetch(query("prune_tenants_of_keys"), *asked, search.scope)
    return [row[0] for row in rows]


async def jobs(connection: Connection, stretch: Stretch, max_count: int) -> PruneStep:
    """Scan a bounded number of jobs and remove the ones that are old enough."""
    row = await connection.fetchrow(query("prune_jobs"), *stretch, max_count)
    return PruneStep(*row) if row else PruneStep(0, None)


async def keys(connection: Connection, stretch: KeyStretch, max_count: int) -> UUID | None:
    """Scan a bounded number of keys, delete the old enough ones; return where to continue."""
    row = await connection.fetchrow(query("prune_keys"), *stretch, max_count)
    return row["last"] if row else None


async def failed(
    connection: Connection, bucket: int, tenant_id: int, job_ids: Sequence[UUID]
) -> list[UUID]:
    """Remove the failed jobs among these; return their ids."""
    removed: list[UUID] = await connection.fetchval(
        query("prune_failed"), bucket, tenant_id, list(job_ids)
    )
    return removed
