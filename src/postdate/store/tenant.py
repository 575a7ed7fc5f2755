"""Tenants."""

from datetime import datetime

import msgspec

from postdate.store.database import Connection
from postdate.store.query import query


class TenantRow(msgspec.Struct, frozen=True):
    """A tenant as stored."""

    tenant_id: int
    name: str
    created_at: datetime


async def create(connection: Connection, name: str) -> int | None:
    """Insert a tenant and give its number, or None when the name is taken."""
    found: int | None = await connection.fetchval(query("tenant_create"), name)
    return found


async def find(connection: Connection, name: str) -> int | None:
    """Give the number of a tenant."""
    found: int | None = await connection.fetchval(query("tenant_find"), name)
    return found


async def page(connection: Connection, after: str, limit: int) -> list[TenantRow]:
    """List tenants by name."""
    return [TenantRow(*row) for row in await connection.fetch(query("tenant_list"), after, limit)]
