"""Models of shared. Written by `make docs` from the endpoints."""

from datetime import datetime, timedelta
from typing import Any, Literal, Required, TypeAlias, TypedDict
from uuid import UUID

from msgspec import Struct

from postdate.words import error, problem
from postdate.words.open_enum import OpenEnum


class PaymentStatus(OpenEnum):
    """Where a payment stands."""

    PENDING = "PENDING"
    EXECUTING = "EXECUTING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


PaymentStatusName: TypeAlias = (
    PaymentStatus | Literal["PENDING", "EXECUTING", "COMPLETED", "FAILED", "CANCELLED"]
)

ProblemCode: TypeAlias = error.Code

FieldProblem: TypeAlias = problem.FieldProblem

Problem: TypeAlias = problem.Problem


class ApprovalDecision(OpenEnum):
    """What `ApprovalDecision` may be."""

    APPROVED = "approved"
    EXPIRED = "expired"
    REFUSED = "refused"
    WITHDRAWN = "withdrawn"


class Approval(Struct, frozen=True, kw_only=True):
    """The approval of a payment by a second person; without a decision it waits."""

    required: bool
    requested_by: str
    requested_at: datetime
    expires_at: datetime
    decision: ApprovalDecision | None = None
    decided_by: str | None = None
    decided_at: datetime | None = None
    note: str | None = None


class Broken(Struct, frozen=True, kw_only=True):
    """Why a payment needs a decision: settlement failed and the retries are used up."""

    code: str
    error: str
    attempts: int
    since: datetime
    amount_held: int
    """An amount, in the currency's minor unit (2500 is 25.00 EUR)."""


class PaymentFunding(OpenEnum):
    """What `PaymentFunding` may be."""

    AT_EXECUTION = "at_execution"
    HOLD = "hold"


class PaymentOnBroken(OpenEnum):
    """What `PaymentOnBroken` may be."""

    HOLD = "hold"
    RELEASE = "release"


class PaymentWaitingFor(OpenEnum):
    """What `PaymentWaitingFor` may be."""

    APPROVAL = "approval"
    PERSON = "person"
    RETRY = "retry"


class Payment(Struct, frozen=True, kw_only=True):
    """A payment; a field that does not apply yet is absent."""

    payment_id: str
    from_account_id: str
    to_account_id: str
    amount: int
    """An amount, in the currency's minor unit (2500 is 25.00 EUR)."""
    scheduled_time: datetime
    status: PaymentStatus
    funding: PaymentFunding
    created_at: datetime
    currency: str | None = None
    """What the amounts are counted in; null or absent: unnamed."""
    description: str | None = None
    retry_until: datetime | None = None
    executed_at: datetime | None = None
    cancelled_at: datetime | None = None
    first_due_at: datetime | None = None
    """The original due instant, if retries have moved `scheduled_time`."""
    lateness_ms: int | None = None
    """From the first due instant until it was executed."""
    waiting_for: PaymentWaitingFor | None = None
    """What an open payment waits for, apart from its due instant."""
    broken: Broken | None = None
    on_broken: PaymentOnBroken | None = None
    error_code: str | None = None
    error_message: str | None = None
    transfer_id: str | None = None
    schedule_id: str | None = None
    refund_of: str | None = None
    """The payment that this one pays back."""
    refunded: int | None = None
    """How much its refunds return or have returned, in the currency's minor unit (2500 is
    25.00 EUR); only where one payment is shown, and absent if there are none."""
    approval: Approval | None = None


class WebhookDestinationParams(TypedDict, total=False):
    """A call to a URL, or to a destination known by its name; exactly one of the two.

    `url`: The address that is called; or name a destination.
    `name`: The name of a stored destination.
    `subject`: A word that the receiver gets with it.
    `keep_answer`: Whether an answer that is JSON becomes the job's `result`.
    `cancel_url`: Called when the job is to be cancelled while its call is under way.
    """

    type: Required[Literal["webhook"]]
    url: str | None
    name: str | None
    subject: str | None
    keep_answer: bool
    cancel_url: str | None


class QueueDestinationParams(TypedDict, total=False):
    """A message on a queue elsewhere, known by its name.

    `name`: The name of a stored queue.
    `subject`: The subject, routing key or topic.
    """

    type: Required[Literal["queue"]]
    name: Required[str]
    subject: str | None


class WorkerDestinationParams(TypedDict, total=False):
    """Work that waits in its lane until a worker asks for it."""

    type: Required[Literal["worker"]]


class RetryParams(TypedDict, total=False):
    """When to try again, as given; what is absent follows the tenant's settings `job.*`.

    `max_attempts`: Including the first attempt.
    `backoff`: How the wait grows from try to try.
    `initial_seconds`: The wait before the second try.
    `max_seconds`: The longest wait between two tries.
    `jitter`: Random part of a delay, 0 to 1.
    `max_age_seconds`: No further try when the job is so old.
    `on_unknown`: After a try whose result is not known: try again, or wait for a person.
    """

    max_attempts: int | None
    backoff: Literal["exponential", "fixed", "linear"] | None
    initial_seconds: float | timedelta | None
    max_seconds: float | timedelta | None
    jitter: float | None
    max_age_seconds: float | timedelta | None
    on_unknown: Literal["hold", "retry"] | None


class OnConflict(OpenEnum):
    """What a request does that finds a job waiting under its unique key."""

    DEBOUNCE = "debounce"
    KEEP = "keep"
    REPLACE = "replace"


OnConflictName: TypeAlias = OnConflict | Literal["debounce", "keep", "replace"]


class UniqueParams(TypedDict, total=False):
    """At most one waiting job holds the key; `on_conflict` says what a second request does.

    `key`: The key that at most one waiting job of the tenant holds.
    `on_conflict`: `keep` answers the waiting job, `replace` gives it the new payload, due time
    and policies, `debounce` moves its due time.
    `max_delay_seconds`: How long after its acceptance `debounce` may move the waiting job.
    """

    key: Required[str]
    on_conflict: OnConflictName
    max_delay_seconds: float | timedelta | None


class HeldBack(Struct, frozen=True, kw_only=True):
    """The destination is failing: the job is not tried before this instant."""

    destination: str
    until: datetime


class JobPayloadError(OpenEnum):
    """What `JobPayloadError` may be."""

    PAYLOAD_UNREADABLE = "payload_unreadable"
    SECRET_KEY_MISSING = "secret_key_missing"


class JobStatus(OpenEnum):
    """Where a job stands; READY is PENDING whose instant has come."""

    PENDING = "PENDING"
    READY = "READY"
    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    UNKNOWN = "UNKNOWN"


JobStatusName: TypeAlias = (
    JobStatus
    | Literal["PENDING", "READY", "RUNNING", "COMPLETED", "FAILED", "CANCELLED", "UNKNOWN"]
)


class JobWaitingFor(OpenEnum):
    """What `JobWaitingFor` may be."""

    KEY_MAX_RUNNING = "key_max_running"
    KEY_RATE_PER_SECOND = "key_rate_per_second"
    LANE_MAX_RUNNING = "lane_max_running"
    LANE_RATE_PER_SECOND = "lane_rate_per_second"
    PERSON = "person"
    RETRY = "retry"


class Progress(Struct, frozen=True, kw_only=True):
    """How far the worker of a job has come, in its own words."""

    percent: float | None = None
    note: str | None = None
    updated_at: datetime
    log: list[str] | None = None
    log_dropped: int = 0


class QueueDestination(Struct, frozen=True, kw_only=True, tag_field="type", tag="queue"):
    """A message on a queue elsewhere, known by its name."""

    name: str
    subject: str | None = None


class RetryBackoff(OpenEnum):
    """What `RetryBackoff` may be."""

    EXPONENTIAL = "exponential"
    FIXED = "fixed"
    LINEAR = "linear"


class RetryOnUnknown(OpenEnum):
    """What `RetryOnUnknown` may be."""

    HOLD = "hold"
    RETRY = "retry"


class Retry(Struct, frozen=True, kw_only=True):
    """When to try again, as given; what is absent follows the tenant's settings `job.*`."""

    max_attempts: int | None = None
    """Including the first attempt."""
    backoff: RetryBackoff | None = None
    initial_seconds: float | None = None
    max_seconds: float | None = None
    jitter: float | None = None
    """Random part of a delay, 0 to 1."""
    max_age_seconds: float | None = None
    on_unknown: RetryOnUnknown | None = None


class Unique(Struct, frozen=True, kw_only=True):
    """At most one waiting job holds the key; `on_conflict` says what a second request does."""

    key: str
    on_conflict: OnConflict = OnConflict.KEEP
    """`keep` answers the waiting job, `replace` gives it the new payload, due time and
    policies, `debounce` moves its due time."""
    max_delay_seconds: float | None = None
    """How long after its acceptance `debounce` may move the waiting job."""


class WebhookDestination(Struct, frozen=True, kw_only=True, tag_field="type", tag="webhook"):
    """A call to a URL, or to a destination known by its name; exactly one of the two."""

    url: str | None = None
    name: str | None = None
    subject: str | None = None
    keep_answer: bool = False
    """Whether an answer that is JSON becomes the job's `result`."""
    cancel_url: str | None = None
    """Called when the job is to be cancelled while its call is under way."""


class WorkerDestination(Struct, frozen=True, kw_only=True, tag_field="type", tag="worker"):
    """Work that waits in its lane until a worker asks for it."""


class Job(Struct, frozen=True, kw_only=True):
    """A job and its status."""

    job_id: str
    status: JobStatus
    lane: str
    priority: int
    destination: WebhookDestination | QueueDestination | WorkerDestination
    due_at: datetime
    effective_at: datetime
    created_at: datetime
    key: str | None = None
    attempt: int = 0
    revision: int = 0
    next_attempt_at: datetime | None = None
    waiting_for: JobWaitingFor | None = None
    jobs_before: int | None = None
    held_back: HeldBack | None = None
    claimed_at: datetime | None = None
    lease_until: datetime | None = None
    progress: Progress | None = None
    cancel_requested_at: datetime | None = None
    cancel_deadline: datetime | None = None
    finished_at: datetime | None = None
    lateness_ms: int | None = None
    code: str | None = None
    error: str | None = None
    in_doubt: bool = False
    http_status: int | None = None
    worker_id: str | None = None
    expires_at: datetime | None = None
    retry: Retry | None = None
    timeout_seconds: float | None = None
    spread_seconds: int | None = None
    result: Any = None
    result_ref: str | None = None
    payload: Any = None
    payload_base64: str | None = None
    payload_error: JobPayloadError | None = None
    content_type: str | None = None
    payload_ref: str | None = None
    metadata: dict[str, Any] | None = None
    description: str | None = None
    schedule_id: str | None = None
    origin_id: str | None = None
    redriven_as: str | None = None
    unique: Unique | None = None
    deduplicated: bool = False


class Attempt(Struct, frozen=True, kw_only=True):
    """One attempt: how it ended, how long it took and how late it began."""

    attempt: int
    status: str
    due_at: datetime
    started_at: datetime
    finished_at: datetime
    duration_ms: int
    lateness_ms: int
    retry_at: datetime | None = None
    http_status: int | None = None
    code: str | None = None
    error: str | None = None
    response: str | None = None
    worker_id: str | None = None
    log: list[str] | None = None
    log_dropped: int = 0


class BulkFilterParams(TypedDict, total=False):
    """Which jobs; at least one member must be given. No status means PENDING and READY.

    `status`: Only those with this status.
    `lane`: Only jobs of this lane.
    `schedule_id`: Only what this schedule has created.
    `key`: Whom the job is for, such as a customer or a host; lists are filtered by it. At most
    255 characters, no control characters.
    `priority`: Order within the lane: 0 goes first, 9 last. Each step is worth a minute of
    waiting.
    `due_after`: Only what is due at this instant or later.
    `due_before`: Only what is due before this instant.
    `unique`: Only jobs under this unique key.
    `destination`: Only jobs for the destination of this name.
    """

    status: JobStatusName | None
    lane: str | None
    schedule_id: UUID | str | None
    key: str | None
    priority: int | None
    due_after: datetime | None
    due_before: datetime | None
    unique: str | None
    destination: str | None


class JobInstantParams(TypedDict, total=False):
    """When the jobs are to be due; with a spread each has its own offset.

    `run_at`: The instant it is due.
    `delay_seconds`: Delay in seconds, from the time the server accepts the request.
    `spread_seconds`: Start at a random instant within this many seconds after the due time, to
    flatten a spike.
    """

    run_at: datetime | None
    delay_seconds: float | timedelta | None
    spread_seconds: int | timedelta | None


class FundsPolicy(OpenEnum):
    """What a payment does if the payer does not have enough when it is due."""

    FAIL = "fail"
    RETRY = "retry"


FundsPolicyName: TypeAlias = FundsPolicy | Literal["fail", "retry"]


class InsufficientFundsParams(TypedDict, total=False):
    """Whether a payment without funds fails at once or keeps trying for a while.

    `policy`: What to do with a payment whose payer has too little.
    `retry_seconds`: How long to keep trying while the money is not there.
    """

    policy: FundsPolicyName
    retry_seconds: int | timedelta


class InsufficientFunds(Struct, frozen=True, kw_only=True):
    """Whether a payment without funds fails at once or keeps trying for a while."""

    policy: FundsPolicy = FundsPolicy.FAIL
    retry_seconds: int = 86400


class LoadSeriesKind(OpenEnum):
    """What `LoadSeriesKind` may be."""

    JOBS = "jobs"
    PAYMENTS = "payments"


class LateEpisode(Struct, frozen=True, kw_only=True):
    """A stretch of time in which work waits, and its worst moment."""

    from_at: datetime
    until_at: datetime | None
    worst_at: datetime
    worst_hour: datetime
    late_seconds: int
    waiting: int


class LateForecast(Struct, frozen=True, kw_only=True):
    """What a capacity means for a window."""

    first_late_at: datetime | None
    worst: LateEpisode | None
    episodes: list[LateEpisode]
    error_seconds: int = 60


class LoadCapacitySource(OpenEnum):
    """What `LoadCapacitySource` may be."""

    GIVEN = "given"
    LANE = "lane"
    MEASURED = "measured"
    SETTING = "setting"
    UNKNOWN = "unknown"


class LoadCapacity(Struct, frozen=True, kw_only=True):
    """What can be executed in a second, and where the figure comes from."""

    per_second: float | None
    source: LoadCapacitySource
    at_least: bool = False


class LoadPeak(Struct, frozen=True, kw_only=True):
    """The busiest minute."""

    at: datetime
    count: int


LoadQueueKind: TypeAlias = LoadSeriesKind


class LoadQueue(Struct, frozen=True, kw_only=True):
    """All jobs.

    All payments, or the jobs of a lane with a limit of its own, against a capacity.
    """

    kind: LoadQueueKind
    name: str
    total: int
    backlog: int
    peak: LoadPeak | None
    capacity: LoadCapacity
    lateness: LateForecast | None


class FailingPayment(Struct, frozen=True, kw_only=True):
    """A payment that will fail: when it is due, when it fails for good, and why."""

    due_at: datetime
    fails_at: datetime
    code: str
    from_account_id: str
    to_account_id: str
    amount: int
    available: int | None
    payment_id: str | None
    schedule_id: str | None
    currency: str | None = None
