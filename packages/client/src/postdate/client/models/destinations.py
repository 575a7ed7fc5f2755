"""Models of destinations. Written by `make docs` from the endpoints."""

from datetime import datetime
from typing import Literal, TypeAlias

from msgspec import Struct

from postdate.words.open_enum import OpenEnum


class DestinationType(OpenEnum):
    """How a destination is reached; pull workers need no destination, only their lane."""

    WEBHOOK = "webhook"
    QUEUE = "queue"


DestinationTypeName: TypeAlias = DestinationType | Literal["webhook", "queue"]


class DestinationStatus(OpenEnum):
    """Whether a destination is delivered to."""

    ACTIVE = "ACTIVE"
    FAILING = "FAILING"
    DISABLED = "DISABLED"


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
    type: DestinationType
    status: DestinationStatus
    failing_since: datetime | None
    trouble: Trouble | None
    url: str | None
    kind: str | None
    max_running: int | None
    rate_per_second: float | None
    disabled_at: datetime | None
    disabled_reason: str | None
    previous_secret_until: datetime | None
    created_at: datetime
    changed_at: datetime


class CreatedDestination(Destination, frozen=True, kw_only=True):
    """A new destination; a webhook's secret is shown only now: a repeated answer has null."""

    secret: str | None


class DestinationList(Struct, frozen=True, kw_only=True):
    """A page of destinations, by name."""

    destinations: list[Destination]
    next_cursor: str | None


class SigningSecret(Struct, frozen=True, kw_only=True):
    """A secret for verifying signatures; until an instant the one before it signs too."""

    secret: str | None
    previous_secret_until: datetime | None


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
