"""Tenants."""

from typing import NamedTuple

from postdate.database.connection.query import Connection, fetch_all, fetch_one, query
from postdate.tenant.spec.tenant import TenantView


class EnabledTenant(NamedTuple):
    """A tenant whose keys and tokens are taken."""

    tenant_id: int
    test: bool


async def create(connection: Connection, name: str, *, test: bool = False) -> int | None:
    """Insert a tenant and give its number, or None when the name is taken."""
    return await connection.fetchval(query("tenant_create"), name, test)


async def find(connection: Connection, name: str) -> int | None:
    """Return the number of a tenant."""
    return await connection.fetchval(query("tenant_find"), name)


async def enabled(connection: Connection, name: str) -> EnabledTenant | None:
    """Return a tenant that is not disabled."""
    return await fetch_one(connection, EnabledTenant, "tenant_enabled", name)


async def disable(connection: Connection, tenant_id: int, *, disabled: bool) -> bool:
    """Disable or enable a tenant; return whether that changed anything."""
    return await connection.fetchval(query("tenant_disable"), tenant_id, disabled) is not None


async def page(connection: Connection, after: str, limit: int) -> list[TenantView]:
    """List tenants by name."""
    return await fetch_all(connection, TenantView, "tenant_list", after, limit)
