"""Models of destinations. Written by `make docs` from the endpoints."""

from datetime import datetime
from typing import Literal, TypeAlias

from msgspec import Struct

from postdate.words.open_enum import OpenEnum


class DestinationStatus(OpenEnum):
    """Whether a destination is delivered to: DISABLED jobs fail, PAUSED jobs wait."""

    ACTIVE = "ACTIVE"
    DEGRADED = "DEGRADED"
    FAILING = "FAILING"
    PAUSED = "PAUSED"
    DISABLED = "DISABLED"


class DestinationType(OpenEnum):
    """How a destination is reached; pull workers need no destination, only their lane."""

    WEBHOOK = "webhook"
    QUEUE = "queue"


DestinationTypeName: TypeAlias = DestinationType | Literal["webhook", "queue"]


class Trouble(Struct, frozen=True, kw_only=True):
    """A failing destination: its latest calls since the failures began, across all nodes."""

    since: datetime
    """Since when it fails."""
    held_until: datetime
    """Until when calls are held back."""
    calls: int
    """How many calls the figures are from."""
    success_rate: float
    """Which part of the calls succeeded, 0 to 1."""
    p99_ms: int
    """99 of 100 calls were faster, in milliseconds."""
    last_answers: list[str]
    """The latest answers, the newest last."""


class Destination(Struct, frozen=True, kw_only=True):
    """A destination as its tenant sees it.

    FAILING: no call has succeeded since `failing_since`.
    """

    name: str
    """The name by which it is known."""
    type: DestinationType
    """How it is reached."""
    status: DestinationStatus
    """Whether it is delivered to."""
    failing_since: datetime | None
    """Since when no call has succeeded; null while it works or is unused."""
    trouble: Trouble | None
    """How the destination fares, while it is given a rest."""
    url: str | None
    """The address of a webhook."""
    kind: str | None
    """The kind of queue."""
    max_running: int | None
    """Maximum at a time, across all nodes; null is no limit."""
    rate_per_second: float | None
    """Maximum starts per second, across all nodes; null is no limit."""
    disabled_at: datetime | None
    """When it was disabled."""
    disabled_reason: str | None
    """Why it was disabled."""
    paused_at: datetime | None
    """When it was paused; null while it is not."""
    paused_reason: str | None
    """Why it was paused."""
    paused_by: str | None
    """Who paused it."""
    previous_secret_until: datetime | None
    """Until when the secret before signs too."""
    created_at: datetime
    """When it was created."""
    changed_at: datetime
    """When it last changed."""


class DestinationList(Struct, frozen=True, kw_only=True):
    """A page of destinations."""

    destinations: list[Destination]
    """The destinations of this page."""
    next_cursor: str | None
    """Give it as `cursor` for the next page; null after the last."""


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
