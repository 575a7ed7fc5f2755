"""Calls about subscriptions. Written by `make docs` from the endpoints."""

# mypy: disable-error-code="empty-body"

from collections.abc import Iterator, Sequence
from uuid import UUID

from msgspec import UNSET, UnsetType

from postdate.client.call import Group, K, call, pages
from postdate.client.models.shared import QueueDestinationParams, WebhookDestinationParams
from postdate.client.models.subscriptions import Subscription, SubscriptionList


class Subscriptions(Group[K]):
    """What the API offers about subscriptions."""

    @call(
        "list_subscriptions",
        "GET",
        "/subscriptions",
        columns=("subscription_id", "status", "types", "lag_events", "lag_seconds", "failures"),
    )
    def list_page(
        self, *, limit: int | UnsetType = UNSET, cursor: str | None = None
    ) -> SubscriptionList:
        """List subscriptions with their lag.

        `lag_events` and `lag_seconds` show whether a receiver keeps up.
        `limit`: Maximum number of items to return.
        `cursor`: `next_cursor` of the previous page.
        """

    @pages(list_page, "subscriptions")
    def list(self, *, page_size: int = 100) -> Iterator[Subscription]:
        """List subscriptions with their lag, page by page until the end.

        `lag_events` and `lag_seconds` show whether a receiver keeps up.
        """

    @call("show_subscription", "GET", "/subscriptions/{subscription_id}")
    def get(self, subscription_id: UUID | str) -> Subscription:
        """Show a subscription.

        With its position in the chain, its failures, and when it is retried.
        `subscription_id`: The subscription's id.
        """

    @call("create_subscription", "POST", "/subscriptions")
    def create(
        self,
        *,
        destination: WebhookDestinationParams | QueueDestinationParams,
        types: Sequence[str] | UnsetType = UNSET,
        accounts: Sequence[str] | None = None,
        from_: str | UnsetType = UNSET,
        idempotency_key: str | None = None,
    ) -> Subscription:
        """Create a subscription: deliver events to a webhook or queue.

        Events are delivered at least once, in order, each with its own id.
        `destination`: Where events go; `{type}` in a queue's subject is the event's type.
        `types`: Types such as `payment.completed` or `payment.*`; none means all.
        `accounts`: Only events about these accounts; null means all.
        `from_`: `now`, `beginning`, or a cursor of `GET /events`.
        """

    @call("delete_subscription", "DELETE", "/subscriptions/{subscription_id}")
    def delete(self, subscription_id: UUID | str) -> None:
        """Delete a subscription.

        An event that is being sent may still arrive.
        `subscription_id`: The subscription's id.
        """

    @call("change_subscription", "PATCH", "/subscriptions/{subscription_id}")
    def change(
        self, subscription_id: UUID | str, *, paused: bool, note: str | UnsetType = UNSET
    ) -> Subscription:
        """Pause or resume a subscription.

        While it is paused it keeps its position; no event is skipped.
        `subscription_id`: The subscription's id.
        `paused`: True pauses, false resumes.
        `note`: Why it is paused.
        """

    @call("replay_subscription", "POST", "/subscriptions/{subscription_id}/replay")
    def replay(
        self, subscription_id: UUID | str, *, from_: str, idempotency_key: str | None = None
    ) -> Subscription:
        """Move a subscription to another position, to repeat or skip events.

        Receivers recognise repeated events by their id.
        `subscription_id`: The subscription's id.
        `from_`: `now`, `beginning`, or a cursor of `GET /events`.
        """
