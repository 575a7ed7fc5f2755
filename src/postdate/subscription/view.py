"""Read subscriptions: their filters, positions and errors."""

from enum import StrEnum
from uuid import UUID

from postdate.core.identity import Identity
from postdate.core.ids import MIN_ID
from postdate.database.connection.database import Database
from postdate.subscription import store as subscription_store
from postdate.subscription.store import SubscriptionRow


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

    async def page(
        self, actor: Identity, after: UUID, limit: int
    ) -> tuple[list[SubscriptionRow], UUID | None]:
        """List subscriptions, oldest first, and return where the next page begins.

        A key limited to accounts sees those limited to its accounts, so its page may be short.
        """
        reader = self._database.tenant_reader(actor.tenant_id)
        rows = await subscription_store.page(reader, actor.tenant_id, after, limit)
        own = [row for row in rows if actor.covers(row.accounts)]
        return own, rows[-1].subscription_id if len(rows) == limit else None

    async def find(self, actor: Identity, subscription_id: UUID) -> SubscriptionRow | None:
        """Return one subscription that the key may see."""
        reader = self._database.tenant_reader(actor.tenant_id)
        found = await subscription_store.page(reader, actor.tenant_id, MIN_ID, 1, subscription_id)
        return found[0] if found and actor.covers(found[0].accounts) else None
