"""Calls about subscriptions. Written by `make docs` from the endpoints."""

from collections.abc import Iterator, Sequence
from uuid import UUID

from msgspec import UNSET, UnsetType

from postdate.client.group import Group
from postdate.client.models.shared import QueueDestinationParams, WebhookDestinationParams
from postdate.client.models.subscriptions import Subscription, SubscriptionList
from postdate.client.operations import subscriptions as operations


class Subscriptions(Group):
    """What the API offers about subscriptions."""

    def create(
        self,
        *,
        destination: WebhookDestinationParams | QueueDestinationParams,
        types: Sequence[str] | UnsetType = UNSET,
        accounts: Sequence[str] | None = None,
        from_: str | UnsetType = UNSET,
        idempotency_key: str | None = None,
    ) -> Subscription:
        """Have events delivered to a webhook or queue.

        Delivered at least once, in order, each event with an id of its own.
        `destination`: Where events go; `{type}` in a queue's subject is the event's type.
        `types`: Types such as `payment.completed` or `payment.*`; none means all.
        `accounts`: Only events about these accounts.
        `from_`: `now`, `beginning`, or a cursor of `GET /events`.
        """
        return self._send(
            operations.CREATE_SUBSCRIPTION,
            body={"destination": destination, "types": types, "accounts": accounts, "from": from_},
            key=idempotency_key,
        )

    def list(self, *, page_size: int = 100) -> Iterator[Subscription]:
        """List subscriptions with how far they are behind, page by page until the end.

        `lag_events` and `lag_seconds` tell whether a receiver keeps up.
        `limit`: How many items to return at most.
        `cursor`: `next_cursor` of the page before.
        """
        return self._pages(
            operations.LIST_SUBSCRIPTIONS,
            lambda page: page.subscriptions,
            query={"limit": page_size},
        )

    def list_page(
        self, *, limit: int | UnsetType = UNSET, cursor: str | None = None
    ) -> SubscriptionList:
        """List subscriptions with how far they are behind.

        `lag_events` and `lag_seconds` tell whether a receiver keeps up.
        `limit`: How many items to return at most.
        `cursor`: `next_cursor` of the page before.
        """
        return self._send(operations.LIST_SUBSCRIPTIONS, query={"limit": limit, "cursor": cursor})

    def get(self, subscription_id: UUID | str) -> Subscription:
        """Look at a subscription.

        With its place in the events, its failures, and when it tries again.
        """
        return self._send(operations.SHOW_SUBSCRIPTION, path={"subscription_id": subscription_id})

    def change(
        self, subscription_id: UUID | str, *, paused: bool, note: str | UnsetType = UNSET
    ) -> Subscription:
        """Pause a subscription, or let it go on.

        While it is paused its place is kept; nothing is left out.
        `note`: Why it is paused.
        """
        return self._send(
            operations.CHANGE_SUBSCRIPTION,
            path={"subscription_id": subscription_id},
            body={"paused": paused, "note": note},
        )

    def delete(self, subscription_id: UUID | str) -> None:
        """End a subscription.

        An event that is on its way may still arrive.
        """
        self._send(operations.DELETE_SUBSCRIPTION, path={"subscription_id": subscription_id})

    def replay(
        self, subscription_id: UUID | str, *, from_: str, idempotency_key: str | None = None
    ) -> Subscription:
        """Go on from another point: send again, or leave something out.

        Receivers know repeated events by their id.
        `from_`: `now`, `beginning`, or a cursor of `GET /events`.
        """
        return self._send(
            operations.REPLAY_SUBSCRIPTION,
            path={"subscription_id": subscription_id},
            body={"from": from_},
            key=idempotency_key,
        )
