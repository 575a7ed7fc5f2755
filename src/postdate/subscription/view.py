"""Read subscriptions: their filters, positions and errors."""

from typing import Final
from uuid import UUID

from postdate.core.identity import Identity, Scope
from postdate.database.connection.database import Database
from postdate.resource.resource import CountLimit, Resource
from postdate.subscription import store
from postdate.subscription.spec import SubscriptionSpec, SubscriptionView

SUBSCRIPTION: Final = Resource(
    noun="subscription",
    spec=SubscriptionSpec,
    shows=SubscriptionView,
    key="subscription_id",
    key_type=UUID,
    read=Scope.ADMIN,
    write=Scope.ADMIN,
    read_limited="filtered",
    write_limited="filtered",
    limit=CountLimit("event.max_subscriptions", store.count),
    columns=("subscription_id", "status", "types", "lag_events", "lag_seconds", "failures"),
)


class SubscriptionViews:
    """Finds and lists a tenant's subscriptions."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @SUBSCRIPTION.list()
    async def page(
        self, actor: Identity, after: UUID, limit: int
    ) -> tuple[list[SubscriptionView], UUID | None]:
        """List subscriptions with their lag.

        `lag_events` and `lag_seconds` show whether a receiver keeps up.
        """
        # A key limited to accounts sees those limited to its accounts, so its page may be short.
        reader = self._database.tenant_reader(actor.tenant_id)
        rows = await store.page(reader, actor.tenant_id, after, limit)
        own = [row for row in rows if actor.covers(row.accounts)]
        return own, rows[-1].subscription_id if len(rows) == limit else None

    @SUBSCRIPTION.get("show_subscription")
    async def find(self, actor: Identity, subscription_id: UUID) -> SubscriptionView | None:
        """Show a subscription.

        With its position in the chain, its failures, and when it is retried.
        """
        reader = self._database.tenant_reader(actor.tenant_id)
        found = await store.find(reader, actor.tenant_id, subscription_id)
        return found if found is not None and actor.covers(found.accounts) else None
