"""Models of schedules. Written by `make docs` from the endpoints."""

from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Any, Literal, Required, TypeAlias, TypedDict

from msgspec import Struct

from postdate.client.models.shared import (
    InsufficientFunds,
    QueueDestination,
    QueueDestinationParams,
    Retry,
    RetryParams,
    Unique,
    UniqueParams,
    WebhookDestination,
    WebhookDestinationParams,
    WorkerDestination,
    WorkerDestinationParams,
)
from postdate.words.open_enum import OpenEnum


class Roll(OpenEnum):
    """What happens to an occurrence on a closed day: skipped, or moved to an open one."""

    NONE = "none"
    FOLLOWING = "following"
    MODIFIED_FOLLOWING = "modified_following"
    PRECEDING = "preceding"


RollName: TypeAlias = Roll | Literal["none", "following", "modified_following", "preceding"]


class Gap(OpenEnum):
    """What happens to a local time that the clock jumps over."""

    SKIP = "skip"
    SHIFT_FORWARD = "shift_forward"
    SHIFT_BACK = "shift_back"


GapName: TypeAlias = Gap | Literal["skip", "shift_forward", "shift_back"]


class Repeated(OpenEnum):
    """Which of its two instants a local time means that the clock shows twice."""

    FIRST = "first"
    SECOND = "second"
    BOTH = "both"


RepeatedName: TypeAlias = Repeated | Literal["first", "second", "both"]


class DstParams(TypedDict, total=False):
    """What happens where local time is missing or repeated.

    `gap`: What to do at a local time that a clock change skips.
    `repeated`: What to do at a local time that a clock change repeats.
    """

    gap: GapName | None
    repeated: RepeatedName | None


class MisfirePolicy(OpenEnum):
    """What happens to occurrences that could not be expanded in time."""

    FIRE_ONCE = "fire_once"
    FIRE_ALL = "fire_all"
    SKIP = "skip"


MisfirePolicyName: TypeAlias = MisfirePolicy | Literal["fire_once", "fire_all", "skip"]


class MisfireParams(TypedDict, total=False):
    """What happens to occurrences that are late, after an outage for example.

    `policy`: What to do with occurrences that were missed.
    `late_after_seconds`: An occurrence counts as missed when it is so late.
    `max_lateness_seconds`: An occurrence later than this is given up.
    `per_minute`: The most missed occurrences that are made up for in a minute.
    """

    policy: MisfirePolicyName
    late_after_seconds: int | timedelta
    max_lateness_seconds: int | timedelta | None
    per_minute: int


class Overlap(OpenEnum):
    """What an occurrence does while the one before is still open."""

    ALLOW = "allow"
    SKIP = "skip"
    BUFFER_ONE = "buffer_one"
    CANCEL_RUNNING = "cancel_running"


OverlapName: TypeAlias = Overlap | Literal["allow", "skip", "buffer_one", "cancel_running"]


class JobTemplateParams(TypedDict, total=False):
    """A job without its instant.

    `destination`: Where the work goes: a webhook, a queue, or the workers of the lane.
    `payload`: What is delivered, as it is given: any JSON.
    `payload_base64`: The payload as opaque bytes.
    `content_type`: Media type of the payload; `application/json` if absent.
    `payload_ref`: Where the receiver finds the payload, when it is kept elsewhere.
    `retry`: When to try again; what is absent follows the tenant's settings.
    `timeout_seconds`: How long one try may take.
    `expires_after_seconds`: Given up when it has not begun so long after its occurrence.
    `lane`: The queue of jobs it belongs to: the unit of fairness, limits and pausing.
    `key`: Whom the job is for, such as a customer or a host; lists are filtered by it. At most
    255 characters, no control characters.
    `priority`: Order within the lane: 0 goes first, 9 last. Each step is worth a minute of
    waiting.
    `metadata`: Your own data, kept and given back; `kind` chooses a worker's handler.
    `description`: Your own words, shown beside it.
    `unique`: At most one waiting job holds this key.
    """

    destination: Required[
        WebhookDestinationParams | QueueDestinationParams | WorkerDestinationParams
    ]
    payload: Any
    payload_base64: str | None
    content_type: str | None
    payload_ref: str | None
    retry: RetryParams | None
    timeout_seconds: float | timedelta | None
    expires_after_seconds: int | timedelta | None
    lane: str
    key: str | None
    priority: int
    metadata: Mapping[str, Any] | None
    description: str | None
    unique: UniqueParams | None


class PaymentTemplateParams(TypedDict, total=False):
    """A payment without its instant; the money is taken when an occurrence is due.

    `from_account_id`: Who pays.
    `to_account_id`: Who is paid.
    `amount`: How much, in the ledger's minor units (cents, for example): always an integer.
    `description`: Your own words, shown beside it.
    """

    from_account_id: Required[str]
    to_account_id: Required[str]
    amount: Required[int]
    description: str | None


class TemplateParams(TypedDict, total=False):
    """What each occurrence becomes: a job or a payment.

    `job`: The job.
    `payment`: The payment.
    """

    job: JobTemplateParams | None
    payment: PaymentTemplateParams | None


class ScheduleStatus(OpenEnum):
    """What `ScheduleStatus` may be."""

    ACTIVE = "ACTIVE"
    ENDED = "ENDED"
    PAUSED = "PAUSED"
    SET_ASIDE = "SET_ASIDE"


AcceptedScheduleStatus: TypeAlias = ScheduleStatus


class Dst(Struct, frozen=True, kw_only=True):
    """What happens where local time is missing or repeated."""

    gap: Gap | None = None
    repeated: Repeated | None = None


class Misfire(Struct, frozen=True, kw_only=True):
    """What happens to occurrences that are late, after an outage for example."""

    policy: MisfirePolicy = MisfirePolicy.FIRE_ONCE
    late_after_seconds: int = 60
    max_lateness_seconds: int | None = None
    per_minute: int = 60


class JobTemplate(Struct, frozen=True, kw_only=True):
    """A job without its instant."""

    destination: WebhookDestination | QueueDestination | WorkerDestination
    payload: Any = None
    payload_base64: str | None = None
    """The payload as opaque bytes."""
    content_type: str | None = None
    payload_ref: str | None = None
    retry: Retry | None = None
    timeout_seconds: float | None = None
    expires_after_seconds: int | None = None
    lane: str = "default"
    key: str | None = None
    priority: int = 5
    metadata: dict[str, Any] | None = None
    description: str | None = None
    unique: Unique | None = None


class PaymentTemplate(Struct, frozen=True, kw_only=True):
    """A payment without its instant; the money is taken when an occurrence is due."""

    from_account_id: str
    """Who pays."""
    to_account_id: str
    """Who is paid."""
    amount: int
    description: str | None = None


class Template(Struct, frozen=True, kw_only=True):
    """What each occurrence becomes: a job or a payment."""

    job: JobTemplate | None = None
    payment: PaymentTemplate | None = None


class Schedule(Struct, frozen=True, kw_only=True):
    """A schedule with all of its policies, chosen or not; `next_due_at` includes the jitter."""

    schedule_id: str
    version: int
    status: ScheduleStatus
    name: str
    cron: str | None
    every_seconds: int | None
    rrule: str | None
    timezone: str
    start_at: datetime | None
    end_at: datetime | None
    max_runs: int | None
    exclude_dates: list[date]
    calendar: str | None
    roll: Roll
    template: Template
    dst: Dst
    misfire: Misfire
    overlap: Overlap
    jitter_seconds: int
    insufficient_funds: InsufficientFunds
    next_due_at: datetime | None
    runs: int
    paused_at: datetime | None
    paused_note: str | None
    last_missed_at: datetime | None
    set_aside_at: datetime | None
    set_aside_error: str | None
    created_at: datetime
    changed_at: datetime
    tzdata: str = "2026f"


class ScheduleWarning(Struct, frozen=True, kw_only=True):
    """A warning: its name, which never changes, and a sentence for a person."""

    code: str
    detail: str


class AcceptedSchedule(Schedule, frozen=True, kw_only=True):
    """A schedule as it was created or changed, with what one should know about it."""

    warnings: list[ScheduleWarning]


class ScheduleList(Struct, frozen=True, kw_only=True):
    """A page of schedules, the oldest first."""

    schedules: list[Schedule]
    next_cursor: str | None


class InlineCalendarParams(TypedDict, total=False):
    """A calendar that is not stored.

    `holidays`: Local dates that are closed.
    `weekend`: Closed days of the week; 1 is Monday.
    """

    holidays: Sequence[date]
    weekend: Sequence[int]


class OccurrenceStatus(OpenEnum):
    """The label of an occurrence in the book."""

    FIRED = "FIRED"
    LATE = "LATE"
    BUFFERED = "BUFFERED"
    SKIPPED_BY_OVERLAP = "SKIPPED_BY_OVERLAP"
    SKIPPED_BY_PAUSE = "SKIPPED_BY_PAUSE"
    SKIPPED_BY_CALENDAR = "SKIPPED_BY_CALENDAR"
    SKIPPED_BY_DST = "SKIPPED_BY_DST"
    SKIPPED_BY_UNIQUE = "SKIPPED_BY_UNIQUE"
    MISSED = "MISSED"
    REFUSED = "REFUSED"


OccurrenceStatusName: TypeAlias = (
    OccurrenceStatus
    | Literal[
        "FIRED",
        "LATE",
        "BUFFERED",
        "SKIPPED_BY_OVERLAP",
        "SKIPPED_BY_PAUSE",
        "SKIPPED_BY_CALENDAR",
        "SKIPPED_BY_DST",
        "SKIPPED_BY_UNIQUE",
        "MISSED",
        "REFUSED",
    ]
)


class ComingOccurrence(Struct, frozen=True, kw_only=True):
    """An occurrence to come: what the rule says, when that is, and what the policies did."""

    nominal_local: datetime
    local: datetime
    scheduled_for: datetime
    due_at: datetime
    notes: list[str]
    merged: list[datetime]
    status: OccurrenceStatus | None


class Preview(Struct, frozen=True, kw_only=True):
    """The next occurrences, in order, the rule in words, and what one should know about it."""

    words: str
    timezone: str
    tzdata: str
    occurrences: list[ComingOccurrence]
    warnings: list[ScheduleWarning]


class Triggered(Struct, frozen=True, kw_only=True):
    """The job or payment that a trigger created."""

    occurrence_id: str
    scheduled_for: datetime
    job_id: str | None = None
    payment_id: str | None = None


class BackfillItemAction(OpenEnum):
    """What `BackfillItemAction` may be."""

    LEFT_OUT = "left_out"
    RAN_ALREADY = "ran_already"
    REFUSED = "refused"
    RUN = "run"


class BackfillItemLeftOut(OpenEnum):
    """What `BackfillItemLeftOut` may be."""

    AHEAD = "ahead"
    MAX_RUNS = "max_runs"
    OVERLAP = "overlap"
    RULE = "rule"
    UNIQUE = "unique"


class BackfillItem(Struct, frozen=True, kw_only=True):
    """One nominal occurrence of the range, and what is or would be done about it."""

    scheduled_for: datetime
    nominal_local: datetime
    action: BackfillItemAction
    left_out: BackfillItemLeftOut | None = None
    status: OccurrenceStatus | None
    due_at: datetime | None = None
    subject: str | None = None
    code: str | None = None


class Backfill(Struct, frozen=True, kw_only=True):
    """A backfill, or the plan of one."""

    dry_run: bool
    runs: int
    occurrences: list[BackfillItem]


class OccurrenceOutcome(OpenEnum):
    """What `OccurrenceOutcome` may be."""

    CANCELLED = "CANCELLED"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"


class Occurrence(Struct, frozen=True, kw_only=True):
    """An occurrence that was due, and its result."""

    occurrence_id: str
    scheduled_for: datetime
    nominal_local: datetime
    due_at: datetime
    status: OccurrenceStatus
    cause: str
    version: int
    job_id: str | None
    payment_id: str | None
    code: str | None
    notes: list[str]
    created_at: datetime
    outcome: OccurrenceOutcome | None


class OccurrenceList(Struct, frozen=True, kw_only=True):
    """The results of occurrences, the newest first."""

    occurrences: list[Occurrence]
    next_cursor: str | None
