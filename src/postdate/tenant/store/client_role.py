"""Login roles of clients: the tenant for which each acts in its own transactions."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from postdate.database.connection.query import Connection, fetch_all, query


class ClientRole(msgspec.Struct, frozen=True):
    """A login role as it was bound; None for accounts or amount means no limit."""

    role: str
    tenant: str
    scopes: list[str]
    accounts: list[str] | None
    max_amount: int | None
    bound_at: datetime


async def exists(connection: Connection, role: str) -> bool:
    """Return whether the server has this role."""
    return bool(await connection.fetchval(query("client_role_exists"), role))


async def bind(
    connection: Connection,
    role: str,
    tenant_id: int,
    scopes: Sequence[str],
    accounts: Sequence[str] | None,
    max_amount: int | None,
    *,
    actor: str,
) -> str | None:
    """Bind a role; return the statement that an administrator has to run, if any."""
    return await connection.fetchval(
        query("client_role_bind"), role, tenant_id, scopes, accounts, max_amount, actor
    )


async def unbind(connection: Connection, role: str) -> int | None:
    """Unbind a role; return the number of its tenant, or None."""
    tenant_id: int | None = await connection.fetchval(query("client_role_unbind"), role)
    return tenant_id


async def page(connection: Connection, limit: int) -> list[ClientRole]:
    """List the roles by name."""
    return await fetch_all(connection, ClientRole, "client_role_list", limit)
