"""Read destinations: everything but their secrets."""

from datetime import datetime

import msgspec

from postdate.model.destination import DestinationType
from postdate.store import destination as destination_store
from postdate.store.database import Database
from postdate.store.destination import DestinationRow


class DestinationView(msgspec.Struct, frozen=True, kw_only=True):
    """A destination as its tenant sees it."""

    name: str
    type: DestinationType
    url: str | None
    kind: str | None
    max_running: int | None
    rate_per_second: float | None
    disabled_at: datetime | None
    disabled_reason: str | None
    previous_secret_until: datetime | None
    created_at: datetime
    changed_at: datetime


def view(row: DestinationRow) -> DestinationView:
    """Show a row."""
    return DestinationView(
        name=row.name,
        type=DestinationType(row.type),
        url=row.url,
        kind=row.kind,
        max_running=row.max_running,
        rate_per_second=row.rate_per_second,
        disabled_at=row.disabled_at,
        disabled_reason=row.disabled_reason,
        previous_secret_until=row.previous_until,
        created_at=row.created_at,
        changed_at=row.changed_at,
    )


class DestinationViews:
    """Find and list a tenant's destinations."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, tenant_id: int, name: str) -> DestinationView | None:
        """Find one by name."""
        async with self._database.read(tenant_id) as connection:
            row = await destination_store.find(connection, tenant_id, name)
        return None if row is None else view(row)

    async def page(
        self, tenant_id: int, after: str, limit: int
    ) -> tuple[list[DestinationView], str | None]:
        """List by name; the second value is where the next page begins."""
        async with self._database.read(tenant_id) as connection:
            rows = await destination_store.page(connection, tenant_id, after, limit + 1)
        following = rows[limit - 1].name if len(rows) > limit else None
        return [view(row) for row in rows[:limit]], following
