"""Read the tenants, for the operator alone."""

from postdate.database.connection.database import Database
from postdate.tenant.store import tenant as tenant_store
from postdate.tenant.store.tenant import TenantRow


class TenantViews:
    """List tenants."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def page(self, after: str, limit: int) -> tuple[list[TenantRow], str | None]:
        """List tenants by name, and return where to go on."""
        # Across tenants, so not as a reader: no tenant's transaction sees more than its own.
        async with self._database.look_up() as connection:
            rows = await tenant_store.page(connection, after, limit + 1)
        return rows[:limit], rows[limit - 1].name if len(rows) > limit else None
