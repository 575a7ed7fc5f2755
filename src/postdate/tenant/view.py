"""Read the tenants, for the operator alone."""

from typing import Final

from postdate.database.connection.database import Database
from postdate.resource.resource import Resource
from postdate.tenant.spec.tenant import TenantSpec, TenantView
from postdate.tenant.store import tenant as tenant_store

TENANT: Final = Resource(
    noun="tenant",
    spec=TenantSpec,
    shows=TenantView,
    path="/internal/tenants",
    read="internal",
    write="internal",
    columns=("tenant", "test", "created_at", "disabled_at"),
)


class TenantViews:
    """List tenants."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @TENANT.list()
    async def page(self, after: str, limit: int) -> tuple[list[TenantView], str | None]:
        """List the tenants.

        For operators, with `X-Internal-Auth`.
        """
        # Across tenants, so not as a reader: no tenant's transaction sees more than its own.
        async with self._database.look_up() as connection:
            rows = await tenant_store.page(connection, after, limit + 1)
        return rows[:limit], rows[limit - 1].tenant if len(rows) > limit else None
