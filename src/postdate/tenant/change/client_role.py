"""Bind login roles of the same server to tenants: who may use SQL in their own transaction."""

from collections.abc import Sequence
from typing import Final

from postdate.audit.spec import CLI
from postdate.core.identity import Scope
from postdate.database.connection.database import Connection, Database
from postdate.event.store.event import named, record_event
from postdate.tenant.store import client_role as store
from postdate.tenant.store import tenant as tenant_store
from postdate.words.error import Code, refuse

SCOPES: Final = (Scope.JOBS_WRITE, Scope.PAYMENTS_WRITE)
"""What a role may be given: to ask for work and money, and to cancel it."""


class ClientRoles:
    """Binds and unbinds login roles; both are events of the tenant."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def bind(
        self,
        role: str,
        tenant: str,
        scopes: Sequence[str] = SCOPES,
        accounts: Sequence[str] | None = None,
        max_amount: int | None = None,
    ) -> str | None:
        """Bind a login role to a tenant; return what an administrator must run, if anything."""
        async with self._database.write() as connection:
            tenant_id = await _checked(connection, tenant, scopes)
            if not await store.exists(connection, role):
                detail = f"The server has no role {role}: CREATE ROLE {role} LOGIN first."
                raise refuse(Code.NOT_FOUND, detail, "role")
            limits = sorted(scopes), accounts, max_amount
            spoke_for = await store.unbind(connection, role)
            left = await store.bind(connection, role, tenant_id, *limits, actor=CLI)
            if spoke_for is not None and spoke_for != tenant_id:
                await _record_unbound(connection, spoke_for, role)
            names = "name", "scopes", "accounts", "max_amount"
            data = dict(zip(names, (role, *limits), strict=True))
            about = named(tenant_id, "role", role)
            await record_event(connection, about, "tenant.role_bound", CLI, data)
        return left

    async def check(self, tenant: str, scopes: Sequence[str]) -> None:
        """Refuse a tenant that does not exist, and scopes that no role may have."""
        async with self._database.connection() as connection:
            await _checked(connection, tenant, scopes)

    async def unbind(self, role: str) -> None:
        """Unbind a login role."""
        async with self._database.write() as connection:
            spoke_for = await store.unbind(connection, role)
            if spoke_for is None:
                raise refuse(Code.NOT_FOUND, f"The role {role} is not bound to a tenant.", "role")
            await _record_unbound(connection, spoke_for, role)


async def _checked(connection: Connection, tenant: str, scopes: Sequence[str]) -> int:
    strange = [scope for scope in scopes if scope not in SCOPES]
    if strange or not scopes:
        allowed = ", ".join(SCOPES)
        raise refuse(Code.UNKNOWN_SCOPE, f"The scopes of a role are {allowed}.", "scope")
    tenant_id = await tenant_store.find(connection, tenant)
    if tenant_id is None:
        raise refuse(Code.UNKNOWN_TENANT, f"There is no tenant {tenant}.", "tenant")
    return tenant_id


async def _record_unbound(connection: Connection, tenant_id: int, role: str) -> None:
    about = named(tenant_id, "role", role)
    await record_event(connection, about, "tenant.role_unbound", CLI, {"name": role})
