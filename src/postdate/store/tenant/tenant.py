"""Tenants."""

from datetime import datetime

import msgspec

from postdate.store.connection.database import Connection
from postdate.store.connection.query import query


class TenantRow(msgspec.Struct, frozen=True):
    """A tenant as stored."""

    tenant_id: int
    name: str
    created_at: datetime
    disabled_at: datetime | None


async def create(connection: Connection, name: str) -> int | None:
    """Insert a tenant and give its number, or None when the name is taken."""
    found: int | None = await connection.fetchval(query("tenant_create"), name)
    return found


async def find(connection: Connection, name: str) -> int | None:
    """Return the number of a tenant."""
    found: int | None = await connection.fetchval(query("tenant_find"), name)
    return found


async def enabled(connection: Connection, name: str) -> int | None:
    """Return the number of a tenant that is not disabled."""
    found: int | None = await connection.fetchval(query("tenant_enabled"), name)
    return found


async def disable(connection: Connection, tenant_id: int, *, disabled: bool) -> None:
    """Take the keys of a tenant no more, or again."""
    await connection.execute(query("tenant_disable"), tenant_id, disabled)


async def page(connection: Connection, after: str, limit: int) -> list[TenantRow]:
    """List tenants by name."""
    return [TenantRow(*row) for row in await connection.fetch(query("tenant_list"), after, limit)]
