"""Read subscriptions: their filters, positions and errors."""

from enum import StrEnum
from uuid import UUID

from postdate.model.ids import MIN_ID
from postdate.store.connection.database import Database
from postdate.store.event import subscription as subscription_store
from postdate.store.event.subscription import SubscriptionRow


class SubscriptionStatus(StrEnum):
    """The status of a subscription."""

    ACTIVE = "ACTIVE"
    RETRYING = "RETRYING"
    PAUSED = "PAUSED"


def status_of(row: SubscriptionRow) -> SubscriptionStatus:
    """Return the status of a subscription, derived from its row."""
    if row.paused_at is not None:
        return SubscriptionStatus.PAUSED
    return SubscriptionStatus.RETRYING if row.failures else SubscriptionStatus.ACTIVE


class SubscriptionViews:
    """Finds and lists a tenant's subscriptions."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def page(self, tenant_id: int, after: UUID, limit: int) -> list[SubscriptionRow]:
        """List subscriptions, oldest first."""
        reader = self._database.tenant_reader(tenant_id)
        return await subscription_store.page(reader, tenant_id, after, limit)

    async def find(self, tenant_id: int, subscription_id: UUID) -> SubscriptionRow | None:
        """Return one subscription."""
        reader = self._database.tenant_reader(tenant_id)
        found = await subscription_store.page(reader, tenant_id, MIN_ID, 1, subscription_id)
        return found[0] if found else None
