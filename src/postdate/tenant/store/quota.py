"""Count what quotas limit."""

from collections import Counter
from collections.abc import Mapping, Sequence

from postdate.core.ids import BUCKETS
from postdate.database.connection.database import Connection, Database
from postdate.database.connection.query import Reader, query
from postdate.tenant.spec.quota import SETTING_OF, QuotaKind


async def pending(database: Database, tenant_ids: Sequence[int]) -> Counter[tuple[int, QuotaKind]]:
    """Count the pending jobs and payments of these tenants, bucket by bucket."""
    found: Counter[tuple[int, QuotaKind]] = Counter()
    for bucket in range(BUCKETS):
        async with database.connection() as connection:
            rows = await connection.fetch(query("quota_pending"), bucket, tenant_ids)
        for tenant_id, kind, many in rows:
            found[tenant_id, kind] += many
    return found


async def remember(
    connection: Connection, tenant_ids: Sequence[int], counted: Mapping[tuple[int, QuotaKind], int]
) -> None:
    """Store the counts, for transactions of clients."""
    keys = [(tenant_id, kind) for tenant_id in sorted(tenant_ids) for kind in sorted(SETTING_OF)]
    tenants, kinds = zip(*keys, strict=True)
    await connection.execute(
        query("quota_remember"), tenants, kinds, [counted.get(key, 0) for key in keys]
    )


async def tenants(connection: Reader) -> dict[int, None]:
    """List the numbers of all tenants."""
    return {row[0]: None for row in await connection.fetch(query("quota_tenants"))}


async def accounts(connection: Connection, tenant_id: int, max_count: int) -> int:
    """Count a tenant's open accounts, up to a limit."""
    return await connection.fetchval(query("quota_accounts"), tenant_id, max_count)


async def schedules(connection: Connection, tenant_id: int, max_count: int) -> int:
    """Count a tenant's active schedules, up to a limit."""
    return await connection.fetchval(query("quota_schedules"), tenant_id, max_count)
