"""Models of subscriptions. Written by `make docs` from the endpoints."""

from datetime import datetime
from typing import Any

from msgspec import Struct

from postdate.words.open_enum import OpenEnum


class SubscriptionStatus(OpenEnum):
    """The status of a subscription."""

    ACTIVE = "ACTIVE"
    RETRYING = "RETRYING"
    PAUSED = "PAUSED"


class Subscription(Struct, frozen=True, kw_only=True):
    """A subscription. `lag_events` counts unread events, including those the filter will drop."""

    subscription_id: str
    """The subscription's id."""
    status: SubscriptionStatus
    """Whether it delivers."""
    destination: dict[str, Any]
    """Where events go."""
    types: list[str]
    """Types such as `payment.completed` or `payment.*`; none means all."""
    accounts: list[str] | None
    """Only events about these accounts; null means all."""
    cursor: str
    """The last event it has read."""
    lag_events: int
    """Unread events, including those the filter will drop."""
    lag_seconds: float | None
    """The age of the oldest unread event."""
    failures: int
    """How many deliveries failed since the last success."""
    error: str | None
    """Why the last delivery failed."""
    retry_at: datetime | None
    """When it is tried again."""
    delivered_at: datetime | None
    """When the last event was delivered."""
    paused_at: datetime | None
    """When it was paused; null while it is not."""
    paused_note: str | None
    """Why it was paused."""
    created_at: datetime
    """When it was created."""


class SubscriptionList(Struct, frozen=True, kw_only=True):
    """A page of subscriptions."""

    subscriptions: list[Subscription]
    """The subscriptions of this page."""
    next_cursor: str | None
    """Give it as `cursor` for the next page; null after the last."""
