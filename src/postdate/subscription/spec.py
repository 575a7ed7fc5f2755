"""Subscriptions as they are asked for and shown."""

from base64 import urlsafe_b64decode
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any
from uuid import UUID

import msgspec
from msgspec import Meta

from postdate.core.field import Created, PausedAt, PausedNote
from postdate.core.shape import Spec, View
from postdate.event.spec.event import MAX_PATTERNS
from postdate.job.spec.job import Queue, Webhook

Types = Annotated[
    list[str],
    Meta(
        max_length=MAX_PATTERNS,
        description="Types such as `payment.completed` or `payment.*`; none means all.",
        examples=[["payment.*"]],
    ),
]
WatchedAccounts = Annotated[
    list[Annotated[str, Meta(min_length=1, max_length=64)]] | None,
    Meta(description="Only events about these accounts; null means all.", examples=[["acc_alice"]]),
]
From = Annotated[
    str,
    Meta(
        max_length=64,
        description="`now`, `beginning`, or a cursor of `GET /events`.",
        examples=["beginning"],
    ),
]


class SubscriptionSpec(Spec, kw_only=True, rename={"start": "from"}):
    """A new subscription."""

    destination: Annotated[
        Webhook | Queue,
        Meta(description="Where events go; `{type}` in a queue's subject is the event's type."),
    ]
    types: Types = msgspec.field(default_factory=list)
    accounts: WatchedAccounts = None
    start: From = "now"


class SubscriptionPauseBody(Spec, kw_only=True):
    """Whether to deliver."""

    paused: Annotated[bool, Meta(description="True pauses, false resumes.", examples=[True])]
    note: Annotated[
        str, Meta(max_length=500, description="Why it is paused.", examples=["ticket 812"])
    ] = "paused"


class ReplayBody(Spec, kw_only=True, rename={"start": "from"}):
    """The position to continue from."""

    start: From


class SubscriptionStatus(StrEnum):
    """The status of a subscription."""

    ACTIVE = "ACTIVE"
    RETRYING = "RETRYING"
    PAUSED = "PAUSED"


class SubscriptionView(View, frozen=True):
    """A subscription. `lag_events` counts unread events, including those the filter will drop."""

    subscription_id: Annotated[
        UUID,
        Meta(
            description="The subscription's id.",
            examples=["0198c0de-5a4e-7abc-8def-0123456789ab"],
        ),
    ]
    status: Annotated[SubscriptionStatus, Meta(description="Whether it delivers.")]
    destination: Annotated[
        dict[str, Any],
        Meta(description="Where events go.", examples=[{"type": "webhook", "name": "orders"}]),
    ]
    types: Types
    accounts: WatchedAccounts
    cursor: Annotated[
        str, Meta(description="The last event it has read.", examples=["MDE5OGMwZGU"])
    ]
    lag_events: Annotated[
        int,
        Meta(
            description="Unread events, including those the filter will drop.",
            examples=[0],
        ),
    ]
    lag_seconds: Annotated[
        float | None, Meta(description="The age of the oldest unread event.", examples=[0.4])
    ]
    failures: Annotated[
        int,
        Meta(description="How many deliveries failed since the last success.", examples=[0]),
    ]
    error: Annotated[
        str | None,
        Meta(description="Why the last delivery failed.", examples=["connection refused"]),
    ]
    retry_at: Annotated[
        datetime | None,
        Meta(description="When it is tried again.", examples=["2031-01-01T09:05:00Z"]),
    ]
    delivered_at: Annotated[
        datetime | None,
        Meta(description="When the last event was delivered.", examples=["2031-01-01T09:00:01Z"]),
    ]
    paused_at: PausedAt
    paused_note: PausedNote
    created_at: Created

    @property
    def position(self) -> int:
        """Return the number of the last event it has read: the cursor is this number in base64."""
        return int(urlsafe_b64decode(self.cursor + "=" * (-len(self.cursor) % 4)))
