"""Models of jobs. Written by `make docs` from the endpoints."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Required, TypedDict

from msgspec import Struct

from postdate.client.models.shared import (
    Attempt,
    Job,
    JobStatus,
    Problem,
    QueueDestinationParams,
    RetryParams,
    UniqueParams,
    WebhookDestinationParams,
    WorkerDestinationParams,
)
from postdate.words.open_enum import OpenEnum


class BatchJobParams(TypedDict, total=False):
    """A job of a batch, with a key of its own.

    `destination`: Where the work goes: a webhook, a queue, or the workers of the lane.
    `run_at`: The instant it is due.
    `delay_seconds`: Delay in seconds, from the time the server accepts the request.
    `payload`: What is delivered, as it is given: any JSON.
    `payload_base64`: The payload as opaque bytes.
    `content_type`: Media type of the payload; `application/json` if absent.
    `payload_ref`: Where the receiver finds the payload, when it is kept elsewhere.
    `retry`: When to try again; what is absent follows the tenant's settings.
    `timeout_seconds`: How long one try may take.
    `expires_at`: It ends, or is given up, at this instant.
    `spread_seconds`: Start at a random instant within this many seconds after the due time, to
    flatten a spike.
    `lane`: The queue of jobs it belongs to: the unit of fairness, limits and pausing.
    `key`: Whom the job is for, such as a customer or a host; lists are filtered by it. At most
    255 characters, no control characters.
    `priority`: Order within the lane: 0 goes first, 9 last. Each step is worth a minute of
    waiting.
    `metadata`: Your own data, kept and given back; `kind` chooses a worker's handler.
    `description`: Your own words, shown beside it.
    `unique`: At most one waiting job holds this key.
    `idempotency_key`: Names this item; repeating it with the same key changes nothing more.
    """

    destination: Required[
        WebhookDestinationParams | QueueDestinationParams | WorkerDestinationParams
    ]
    run_at: datetime | None
    delay_seconds: float | timedelta | None
    payload: Any
    payload_base64: str | None
    content_type: str | None
    payload_ref: str | None
    retry: RetryParams | None
    timeout_seconds: float | timedelta | None
    expires_at: datetime | None
    spread_seconds: int | timedelta | None
    lane: str
    key: str | None
    priority: int
    metadata: Mapping[str, Any] | None
    description: str | None
    unique: UniqueParams | None
    idempotency_key: str | None


class JobOutcome(Struct, frozen=True, kw_only=True):
    """The outcome of one item: a job, or a problem."""

    status: int
    """What a single request would have answered."""
    job: Job | None = None
    problem: Problem | None = None
    replayed: bool = False
    """Whether this is a stored answer to the key."""


class JobOutcomes(Struct, frozen=True, kw_only=True):
    """One outcome for each item, in the order of the request."""

    accepted: int
    """How many were accepted."""
    refused: int
    """How many were refused."""
    outcomes: list[JobOutcome]


class JobList(Struct, frozen=True, kw_only=True):
    """A page of jobs; it may be short though more follow, `next_cursor` says."""

    jobs: list[Job]
    next_cursor: str | None


class AttemptList(Struct, frozen=True, kw_only=True):
    """The attempts at a job, in order."""

    attempts: list[Attempt]
    next_cursor: str | None


class CancelledJobEffect(OpenEnum):
    """What `CancelledJobEffect` may be."""

    CANCEL_REQUESTED = "cancel_requested"
    CANCELLED_AFTER_FAILURE = "cancelled_after_failure"
    CANCELLED_BEFORE_CLAIM = "cancelled_before_claim"
    CANCELLED_IN_DOUBT = "cancelled_in_doubt"
    STOPPED_IN_FLIGHT = "stopped_in_flight"


class CancelledJob(Struct, frozen=True, kw_only=True):
    """The result of a cancellation. A job that was running may have taken effect."""

    status: JobStatus
    result: CancelledJobEffect
    cancel_deadline: datetime | None = None


class BulkOutcome(Struct, frozen=True, kw_only=True):
    """How many jobs matched, by status, and how many were changed; if `more`, call again."""

    dry_run: bool
    matched: dict[str, int]
    changed: int
    more: bool
    asked: int = 0
