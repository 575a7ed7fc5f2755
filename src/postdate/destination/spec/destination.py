"""Destinations: named places that jobs go to, as their handlers see them."""

from collections.abc import Awaitable, Callable
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from postdate.core.field import (
    DAY_SECONDS,
    Changed,
    Created,
    MaxRunning,
    Name,
    OverlapSeconds,
    PausedAt,
    PausedBy,
    RatePerSecond,
)
from postdate.core.limit import Limit
from postdate.core.shape import Spec, View
from postdate.destination.spec.target import URL_CHARACTERS


class DestinationType(StrEnum):
    """How a destination is reached; pull workers need no destination, only their lane."""

    WEBHOOK = "webhook"
    QUEUE = "queue"


class DestinationStatus(StrEnum):
    """Whether a destination is delivered to: DISABLED jobs fail, PAUSED jobs wait.

    FAILING: none of its latest answers succeeded. DEGRADED: fewer than nine of ten did.
    """

    ACTIVE = "ACTIVE"
    DEGRADED = "DEGRADED"
    FAILING = "FAILING"
    PAUSED = "PAUSED"
    DISABLED = "DISABLED"


ShownType = Annotated[DestinationType, Meta(description="How it is reached.")]
Url = Annotated[
    Annotated[str, Meta(min_length=1, max_length=URL_CHARACTERS)] | None,
    Meta(description="The address of a webhook.", examples=["https://shop.example/hooks/postdate"]),
]
QueueKind = Annotated[
    Annotated[str, Meta(max_length=63)] | None,
    Meta(description="The kind of queue.", examples=["nats"]),
]
Secret = Annotated[
    str | None,
    Meta(
        description="The signing secret: shown this once.",
        examples=["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo="],
    ),
]
Until = Annotated[
    datetime | None,
    Meta(description="Until when the secret before signs too.", examples=["2031-01-02T09:00:00Z"]),
]


class DestinationSpec(Spec, kw_only=True):
    """A new destination."""

    name: Name
    type: ShownType = DestinationType.WEBHOOK
    url: Url = None
    kind: QueueKind = None
    config: Annotated[
        dict[str, Any] | None,
        Meta(
            description="The settings of a queue; stored encrypted.",
            examples=[{"url": "nats://broker.example:4222"}],
            extra={"secret": True},
        ),
    ] = None
    secret: Annotated[
        Annotated[str, Meta(max_length=128)] | None,
        Meta(
            description="Your own `whsec_…` secret; generated if absent.",
            examples=["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo="],
            extra={"secret": True},
        ),
    ] = None
    max_running: MaxRunning = None
    rate_per_second: RatePerSecond = None
    force: Annotated[
        bool,
        Meta(
            description="Register a queue even if its broker cannot be reached.",
            examples=[False],
        ),
    ] = False


class RotateBody(Spec, kw_only=True):
    """How long both secrets are used."""

    overlap_seconds: OverlapSeconds = DAY_SECONDS


class DestinationPauseBody(Spec, kw_only=True):
    """Why."""

    reason: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=500,
            description="Why; shown with each waiting job.",
            examples=["their release, until 14:00"],
        ),
    ]


class DestinationResumeBody(Spec, kw_only=True):
    """Why."""

    reason: Annotated[
        Annotated[str, Meta(min_length=1, max_length=500)] | None,
        Meta(description="Why; it stands in the event.", examples=["their release is done"]),
    ] = None


class DestinationDisableBody(Spec, kw_only=True):
    """Why."""

    reason: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=500,
            description="Why; it stands in the event and the audit.",
            examples=["ticket 812"],
        ),
    ] = "by hand"


class TroubleView(msgspec.Struct, frozen=True, kw_only=True):
    """A failing destination: its latest calls since the failures began, across all nodes.

    Only an occasional probe is sent; `last_answers` has the newest last.
    """

    since: Annotated[
        datetime, Meta(description="Since when it fails.", examples=["2031-01-01T09:00:00Z"])
    ]
    held_until: Annotated[
        datetime,
        Meta(description="Until when calls are held back.", examples=["2031-01-01T09:05:00Z"]),
    ]
    calls: Annotated[int, Meta(description="How many calls the figures are from.", examples=[120])]
    success_rate: Annotated[
        float, Meta(description="Which part of the calls succeeded, 0 to 1.", examples=[0.98])
    ]
    p99_ms: Annotated[
        int,
        Meta(description="99 of 100 calls were faster, in milliseconds.", examples=[240]),
    ]
    last_answers: Annotated[
        list[str], Meta(description="The latest answers, the newest last.", examples=[["503"]])
    ]


class DestinationView(View, frozen=True):
    """A destination as its tenant sees it. FAILING: no call has succeeded since `failing_since`.

    With a `trouble` its jobs are held back, too; the first failures only make it FAILING.
    """

    name: Name
    type: ShownType
    status: Annotated[DestinationStatus, Meta(description="Whether it is delivered to.")]
    failing_since: Annotated[
        datetime | None,
        Meta(
            description="Since when no call has succeeded; null while it works or is unused.",
            examples=["2031-01-02T09:00:00Z"],
        ),
    ]
    trouble: Annotated[
        TroubleView | None,
        Meta(description="How the destination fares, while it is given a rest."),
    ]
    url: Url
    kind: QueueKind
    max_running: MaxRunning
    rate_per_second: RatePerSecond
    disabled_at: Annotated[
        datetime | None,
        Meta(description="When it was disabled.", examples=["2031-01-02T09:00:00Z"]),
    ]
    disabled_reason: Annotated[
        str | None, Meta(description="Why it was disabled.", examples=["answered 410 Gone"])
    ]
    paused_at: PausedAt
    paused_reason: Annotated[
        str | None, Meta(description="Why it was paused.", examples=["their release"])
    ]
    paused_by: PausedBy
    previous_secret_until: Until
    created_at: Created
    changed_at: Changed


class CreatedDestination(DestinationView, frozen=True):
    """A new destination; a webhook's secret is shown only now: a repeated answer has null."""

    secret: Secret


class SigningSecret(View, frozen=True):
    """A secret for verifying signatures; until an instant the one before it signs too.

    The repeated answer of a rotation has null for the secret.
    """

    secret: Secret
    previous_secret_until: Until


class Destination(msgspec.Struct, frozen=True, kw_only=True):
    """A destination with its secrets in the clear: lives in memory, is never written down.

    `name` is None for the tenant's default, which signs calls to a bare URL. `secrets` are the keys
    to sign with: two while a secret is being rotated. `kind` says which sort of queue it is, and
    `config` what that needs to connect.
    """

    tenant_id: int
    name: str | None
    type: DestinationType
    limit: Limit
    url: str | None = None
    kind: str | None = None
    config: dict[str, Any] | None = None
    secrets: tuple[bytes, ...] = ()
    disabled: str | None = None
    paused: str | None = None
    paused_seconds: float = 0.0
    """How long it had been paused when it was read."""

    def __repr__(self) -> str:
        """Return which one it is, and no secret of it."""
        return f"Destination({self.tenant_id}, {self.name!r}, {self.type.value})"


class Missing(msgspec.Struct, frozen=True):
    """There is no destination of this name."""


class Unavailable(msgspec.Struct, frozen=True):
    """A destination that cannot be read now: the database or the secret's key is missing."""

    reason: str
    elsewhere: bool = False
    """Whether another node may be able to read it."""


Resolved = Destination | Missing | Unavailable
Resolve = Callable[[int, str | None], Awaitable[Resolved]]
"""Find a tenant's destination by name, or with None the tenant's default."""

Disable = Callable[[int, str, str], Awaitable[None]]
"""Disable a tenant's destination by name, for a reason."""
