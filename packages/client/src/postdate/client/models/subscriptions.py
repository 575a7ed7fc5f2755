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
    """A subscription. `lag` counts unread events, including those the filter will drop."""

    subscription_id: str
    status: SubscriptionStatus
    destination: dict[str, Any]
    types: list[str]
    accounts: list[str] | None
    cursor: str
    lag_events: int
    lag_seconds: float | None
    failures: int
    error: str | None
    retry_at: datetime | None
    delivered_at: datetime | None
    paused_at: datetime | None
    paused_note: str | None
    created_at: datetime


class SubscriptionList(Struct, frozen=True, kw_only=True):
    """A page of subscriptions."""

    subscriptions: list[Subscription]
    next_cursor: str | None
