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

        `destination`: Where events go; `{type}` in a queue's subject is the event's type.
        `types`: Types such as `payment.completed` or `payment.*`; none means all.
        `accounts`: Only events about these accounts.
        `from_`: `now`, `beginning`, or a cursor of `GET /events`.
        """
        return self._send(
            operations.CREATE,
            body={"destination": destination, "types": types, "accounts": accounts, "from": from_},
            key=idempotency_key,
        )

    def list(self, *, page_size: int = 100) -> Iterator[Subscription]:
        """List subscriptions with how far they are behind, page by page until the end.

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

        `limit`: How many items to return at most.
        `cursor`: `next_cursor` of the page before.
        """
        return self._send(operations.LIST_SUBSCRIPTIONS, query={"limit": limit, "cursor": cursor})

    def get(self, subscription_id: UUID | str) -> Subscription:
        """Look at a subscription."""
        return self._send(operations.SHOW, path={"subscription_id": subscription_id})

    def change(
        self, subscription_id: UUID | str, *, paused: bool, note: str | UnsetType = UNSET
    ) -> Subscription:
        """Pause a subscription, or let it go on.

        `note`: Why it is paused.
        """
        return self._send(
            operations.CHANGE,
            path={"subscription_id": subscription_id},
            body={"paused": paused, "note": note},
        )

    def delete(self, subscription_id: UUID | str) -> None:
        """End a subscription."""
        self._send(operations.DELETE, path={"subscription_id": subscription_id})

    def replay(
        self, subscription_id: UUID | str, *, from_: str, idempotency_key: str | None = None
    ) -> Subscription:
        """Go on from another point: send again, or leave something out.

        `from_`: `now`, `beginning`, or a cursor of `GET /events`.
        """
        return self._send(
            operations.REPLAY,
            path={"subscription_id": subscription_id},
            body={"from": from_},
            key=idempotency_key,
        )
