"""Models of change sets. Written by `make docs` from the endpoints."""

from datetime import datetime, timedelta
from typing import Literal, Required, TypedDict
from uuid import UUID

from msgspec import Struct

from postdate.client.models.shared import (
    BulkFilterParams,
    FailingPayment,
    InsufficientFunds,
    InsufficientFundsParams,
    JobInstantParams,
    JobStatus,
    LoadQueue,
)
from postdate.words.open_enum import OpenEnum


class PauseLaneParams(TypedDict, total=False):
    """Pause a lane.

    `lane`: The queue of jobs it belongs to: the unit of fairness, limits and pausing.
    """

    type: Required[Literal["pause_lane"]]
    lane: Required[str]


class LimitLaneParams(TypedDict, total=False):
    """Limit the jobs that a lane starts per second; null removes the limit.

    `lane`: The queue of jobs it belongs to: the unit of fairness, limits and pausing.
    `rate_per_second`: Maximum starts per second, across all nodes; null is no limit.
    """

    type: Required[Literal["limit_lane"]]
    lane: Required[str]
    rate_per_second: Required[float | None]


class PauseScheduleParams(TypedDict, total=False):
    """Skip the occurrences of a schedule.

    `schedule_id`: The schedule's id.
    """

    type: Required[Literal["pause_schedule"]]
    schedule_id: Required[UUID | str]


class ChangePolicyParams(TypedDict, total=False):
    """Change a schedule's jitter, or its policy for payments without funds.

    `schedule_id`: The schedule's id.
    `jitter_seconds`: Every occurrence is later by one fixed delay of at most this many seconds.
    `insufficient_funds`: What to do with a payment whose payer has too little.
    """

    type: Required[Literal["change_policy"]]
    schedule_id: Required[UUID | str]
    jitter_seconds: int | timedelta | None
    insufficient_funds: InsufficientFundsParams | None


class FreezeParams(TypedDict, total=False):
    """Hold everything that is due between two instants.

    `from_at`: When it begins: the next whole minute by default.
    `until_at`: When it ends.
    """

    type: Required[Literal["freeze"]]
    from_at: datetime | None
    until_at: Required[datetime]


class HaltTenantParams(TypedDict, total=False):
    """Stop everything of the tenant; it is the last change of its set."""

    type: Required[Literal["halt"]]


class PutSettingParams(TypedDict, total=False):
    """Set a run-time setting of the tenant.

    `name`: The name by which it is known.
    `value`: The value that holds.
    """

    type: Required[Literal["put_setting"]]
    name: Required[str]
    value: Required[int | float | bool | str]


class RescheduleJobsParams(TypedDict, total=False):
    """Move the jobs that match now to another instant.

    `filter`: Which ones are meant.
    `to`: The new instant.
    """

    type: Required[Literal["reschedule_jobs"]]
    filter: Required[BulkFilterParams]
    to: Required[JobInstantParams]


class CancelJobsParams(TypedDict, total=False):
    """Cancel the jobs that match now; running ones only if the filter says RUNNING.

    `filter`: Which ones are meant.
    """

    type: Required[Literal["cancel_jobs"]]
    filter: Required[BulkFilterParams]


class PaymentBulkFilterParams(TypedDict, total=False):
    """Which pending payments; at least one member must be given.

    `from_account_id`: 1 to 64 of A-Z a-z 0-9 _ . : @ -, beginning with a letter or digit.
    `to_account_id`: 1 to 64 of A-Z a-z 0-9 _ . : @ -, beginning with a letter or digit.
    `schedule_id`: Only what this schedule has created.
    `due_after`: Only what is due at this instant or later.
    `due_before`: Only what is due before this instant.
    """

    from_account_id: str | None
    to_account_id: str | None
    schedule_id: UUID | str | None
    due_after: datetime | None
    due_before: datetime | None


class PaymentInstantParams(TypedDict, total=False):
    """When the payments are to be due: one of the two.

    `delay_seconds`: Delay in seconds, from the time the server accepts the request.
    `scheduled_time`: The instant the payment is due.
    """

    delay_seconds: int | timedelta | None
    scheduled_time: datetime | None


class ReschedulePaymentsParams(TypedDict, total=False):
    """Move the pending payments that match now to another instant; their holds stay.

    `filter`: Which ones are meant.
    `to`: The new instant.
    """

    type: Required[Literal["reschedule_payments"]]
    filter: Required[PaymentBulkFilterParams]
    to: Required[PaymentInstantParams]


class CancelPaymentsParams(TypedDict, total=False):
    """Cancel the pending payments that match now; what they hold is released.

    `filter`: Which ones are meant.
    """

    type: Required[Literal["cancel_payments"]]
    filter: Required[PaymentBulkFilterParams]


class BulkFilter(Struct, frozen=True, kw_only=True):
    """Which jobs; at least one member must be given. No status means PENDING and READY."""

    status: JobStatus | None = None
    lane: str | None = None
    schedule_id: str | None = None
    key: str | None = None
    priority: int | None = None
    due_after: datetime | None = None
    due_before: datetime | None = None
    unique: str | None = None
    destination: str | None = None


class CancelJobs(Struct, frozen=True, kw_only=True, tag_field="type", tag="cancel_jobs"):
    """Cancel the jobs that match now; running ones only if the filter says RUNNING."""

    filter: BulkFilter


class PaymentBulkFilter(Struct, frozen=True, kw_only=True):
    """Which pending payments; at least one member must be given."""

    from_account_id: str | None = None
    """1 to 64 of A-Z a-z 0-9 _ . : @ -, beginning with a letter or digit."""
    to_account_id: str | None = None
    """1 to 64 of A-Z a-z 0-9 _ . : @ -, beginning with a letter or digit."""
    schedule_id: str | None = None
    due_after: datetime | None = None
    due_before: datetime | None = None


class CancelPayments(Struct, frozen=True, kw_only=True, tag_field="type", tag="cancel_payments"):
    """Cancel the pending payments that match now; what they hold is released."""

    filter: PaymentBulkFilter


class ChangeEffect(Struct, frozen=True, kw_only=True):
    """What changes would do within a window; null or empty is what the key may not see."""

    from_at: datetime
    until_at: datetime
    known_until: datetime
    error_percent: int | None
    moved: int | None
    moved_amount: int | None
    released_amount: int | None
    held: int | None
    skipped: int | None
    queues_before: list[LoadQueue]
    queues_after: list[LoadQueue]
    failing_before: int | None
    failing_after: int | None
    failing: list[FailingPayment]


class ChangePolicy(Struct, frozen=True, kw_only=True, tag_field="type", tag="change_policy"):
    """Change a schedule's jitter, or its policy for payments without funds."""

    schedule_id: str
    jitter_seconds: int | None = None
    insufficient_funds: InsufficientFunds | None = None


class Freeze(Struct, frozen=True, kw_only=True, tag_field="type", tag="freeze"):
    """Hold everything that is due between two instants."""

    from_at: datetime | None = None
    until_at: datetime


class HaltTenant(Struct, frozen=True, kw_only=True, tag_field="type", tag="halt"):
    """Stop everything of the tenant; it is the last change of its set."""


class LimitLane(Struct, frozen=True, kw_only=True, tag_field="type", tag="limit_lane"):
    """Limit the jobs that a lane starts per second; null removes the limit."""

    lane: str
    """The queue of jobs it belongs to: the unit of fairness, limits and pausing."""
    rate_per_second: float | None
    """Maximum starts per second, across all nodes; null is no limit."""


class PauseLane(Struct, frozen=True, kw_only=True, tag_field="type", tag="pause_lane"):
    """Pause a lane."""

    lane: str
    """The queue of jobs it belongs to: the unit of fairness, limits and pausing."""


class PauseSchedule(Struct, frozen=True, kw_only=True, tag_field="type", tag="pause_schedule"):
    """Skip the occurrences of a schedule."""

    schedule_id: str


class PutSetting(Struct, frozen=True, kw_only=True, tag_field="type", tag="put_setting"):
    """Set a run-time setting of the tenant."""

    name: str
    value: int | float | bool | str


class JobInstant(Struct, frozen=True, kw_only=True):
    """When the jobs are to be due; with a spread each has its own offset."""

    run_at: datetime | None = None
    delay_seconds: float | None = None
    spread_seconds: int | None = None


class RescheduleJobs(Struct, frozen=True, kw_only=True, tag_field="type", tag="reschedule_jobs"):
    """Move the jobs that match now to another instant."""

    filter: BulkFilter
    to: JobInstant


class PaymentInstant(Struct, frozen=True, kw_only=True):
    """When the payments are to be due: one of the two."""

    delay_seconds: int | None = None
    scheduled_time: datetime | None = None


class ReschedulePayments(
    Struct, frozen=True, kw_only=True, tag_field="type", tag="reschedule_payments"
):
    """Move the pending payments that match now to another instant; their holds stay."""

    filter: PaymentBulkFilter
    to: PaymentInstant


class StepState(OpenEnum):
    """What `StepState` may be."""

    BEGUN = "begun"
    DONE = "done"
    PLANNED = "planned"
    UNDONE = "undone"


class Step(Struct, frozen=True, kw_only=True):
    """How far one change has come; null or empty is what the key may not see."""

    type: str
    state: StepState
    jobs: int | None
    payments: int | None
    amount: int | None
    more: bool | None
    changed: int | None
    restored: int | None
    left: list[str]
    left_count: int | None


class ChangeSet(Struct, frozen=True, kw_only=True):
    """A change set; a draft comes with its effect."""

    change_set_id: str
    status: str
    note: str | None
    created_by: str
    created_at: datetime
    changed_at: datetime
    changes: list[
        PauseLane
        | LimitLane
        | PauseSchedule
        | ChangePolicy
        | Freeze
        | HaltTenant
        | PutSetting
        | RescheduleJobs
        | CancelJobs
        | ReschedulePayments
        | CancelPayments
        | None
    ]
    steps: list[Step]
    effect: ChangeEffect | None = None


class ChangeSetList(Struct, frozen=True, kw_only=True):
    """Change sets, the newest first."""

    change_sets: list[ChangeSet]
    next_cursor: str | None


class ChangeItem(Struct, frozen=True, kw_only=True):
    """A job or payment that a change of the set is about."""

    change: int
    job_id: str | None = None
    payment_id: str | None = None
    changed: bool
    due_before: datetime | None
    restored_as: str | None


class ChangeItemList(Struct, frozen=True, kw_only=True):
    """Items of a change set, in the order of its changes."""

    items: list[ChangeItem]
    next_cursor: str | None
