"""Models of destinations. Written by `make docs` from the endpoints."""

from datetime import datetime
from typing import Literal, TypeAlias

from msgspec import Struct

from postdate.words.open_enum import OpenEnum


class DestinationStatus(OpenEnum):
    """Whether a destination is delivered to."""

    ACTIVE = "ACTIVE"
    FAILING = "FAILING"
    DISABLED = "DISABLED"


class DestinationType(OpenEnum):
    """How a destination is reached; pull workers need no destination, only their lane."""

    WEBHOOK = "webhook"
    QUEUE = "queue"


DestinationTypeName: TypeAlias = DestinationType | Literal["webhook", "queue"]


class Trouble(Struct, frozen=True, kw_only=True):
    """A failing destination: its latest calls since the failures began, across all nodes."""

    since: datetime
    held_until: datetime
    calls: int
    success_rate: float
    p99_ms: int
    last_answers: list[str]


class Destination(Struct, frozen=True, kw_only=True):
    """A destination as its tenant sees it.

    FAILING: no call has succeeded since `failing_since`.
    """

    name: str
    """The name by which it is known."""
    type: DestinationType
    """How it is reached."""
    status: DestinationStatus
    failing_since: datetime | None
    trouble: Trouble | None
    url: str | None
    """The address of a webhook."""
    kind: str | None
    """The kind of queue."""
    max_running: int | None
    """Maximum at a time, across all nodes; null is no limit."""
    rate_per_second: float | None
    """Maximum starts per second, across all nodes; null is no limit."""
    disabled_at: datetime | None
    disabled_reason: str | None
    previous_secret_until: datetime | None
    """Until when the secret before signs too."""
    created_at: datetime
    """When it was created."""
    changed_at: datetime
    """When it last changed."""


class DestinationList(Struct, frozen=True, kw_only=True):
    """A page of destinations."""

    destinations: list[Destination]
    next_cursor: str | None


class CreatedDestination(Destination, frozen=True, kw_only=True):
    """A new destination; a webhook's secret is shown only now: a repeated answer has null."""

    secret: str | None
    """The signing secret: shown this once."""


class SigningSecret(Struct, frozen=True, kw_only=True):
    """A secret for verifying signatures; until an instant the one before it signs too."""

    secret: str | None
    """The signing secret: shown this once."""
    previous_secret_until: datetime | None
    """Until when the secret before signs too."""


class DestinationTrialOutcome(OpenEnum):
    """What `DestinationTrialOutcome` may be."""

    COMPLETED = "completed"
    FAILED = "failed"
    RUNNING = "running"
    THROTTLED = "throttled"
    UNKNOWN = "unknown"


class DestinationTrial(Struct, frozen=True, kw_only=True):
    """The result of a test, in the form of an attempt."""

    outcome: DestinationTrialOutcome
    duration_ms: int
    http_status: int | None = None
    code: str | None = None
    error: str | None = None
    response: str | None = None
