"""Models of change sets. Written by `make docs` from the endpoints."""

from datetime import datetime, timedelta
from typing import Literal, Required, TypedDict
from uuid import UUID

from msgspec import Struct

from postdate.client.models.shared import (
    BulkFilterParams,
    FailingPayment,
    InstantParams,
    InsufficientFunds,
    InsufficientFundsParams,
    JobStatus,
    LoadQueue,
)
from postdate.model.open_enum import OpenEnum


class PauseLaneParams(TypedDict, total=False):
    """Let nothing of a lane start."""

    type: Required[Literal["pause_lane"]]
    lane: Required[str]


class LimitLaneParams(TypedDict, total=False):
    """Let a lane start no more than so many in a second; null takes the limit away."""

    type: Required[Literal["limit_lane"]]
    lane: Required[str]
    rate_per_second: Required[float | None]


class PauseScheduleParams(TypedDict, total=False):
    """Skip the occurrences of a schedule."""

    type: Required[Literal["pause_schedule"]]
    schedule_id: Required[UUID | str]


class ChangePolicyParams(TypedDict, total=False):
    """Give a schedule another jitter, or another policy for payments without funds."""

    type: Required[Literal["change_policy"]]
    schedule_id: Required[UUID | str]
    jitter_seconds: int | timedelta | None
    insufficient_funds: InsufficientFundsParams | None


class FreezeParams(TypedDict, total=False):
    """Hold everything that is due between two instants."""

    type: Required[Literal["freeze"]]
    from_at: datetime | None
    until_at: Required[datetime]


class RescheduleJobsParams(TypedDict, total=False):
    """Move the jobs that match now to another instant."""

    type: Required[Literal["reschedule_jobs"]]
    filter: Required[BulkFilterParams]
    to: Required[InstantParams]


class CancelJobsParams(TypedDict, total=False):
    """Cancel the jobs that match now."""

    type: Required[Literal["cancel_jobs"]]
    filter: Required[BulkFilterParams]


class BulkFilter(Struct, frozen=True, kw_only=True):
    """Which jobs; at least one member must be given. No status means PENDING and READY."""

    status: JobStatus | None = None
    lane: str | None = None
    schedule_id: str | None = None
    due_after: datetime | None = None
    due_before: datetime | None = None


class CancelJobs(Struct, frozen=True, kw_only=True, tag_field="type", tag="cancel_jobs"):
    """Cancel the jobs that match now."""

    filter: BulkFilter


class ChangeEffect(Struct, frozen=True, kw_only=True):
    """What changes would do within a window."""

    from_at: datetime
    until_at: datetime
    known_until: datetime
    error_percent: int | None
    moved: int
    held: int
    skipped: int
    queues_before: list[LoadQueue]
    queues_after: list[LoadQueue]
    failing_before: int
    failing_after: int
    failing: list[FailingPayment]


class ChangePolicy(Struct, frozen=True, kw_only=True, tag_field="type", tag="change_policy"):
    """Give a schedule another jitter, or another policy for payments without funds."""

    schedule_id: str
    jitter_seconds: int | None = None
    insufficient_funds: InsufficientFunds | None = None


class Freeze(Struct, frozen=True, kw_only=True, tag_field="type", tag="freeze"):
    """Hold everything that is due between two instants."""

    from_at: datetime | None = None
    until_at: datetime


class LimitLane(Struct, frozen=True, kw_only=True, tag_field="type", tag="limit_lane"):
    """Let a lane start no more than so many in a second; null takes the limit away."""

    lane: str
    rate_per_second: float | None


class PauseLane(Struct, frozen=True, kw_only=True, tag_field="type", tag="pause_lane"):
    """Let nothing of a lane start."""

    lane: str


class PauseSchedule(Struct, frozen=True, kw_only=True, tag_field="type", tag="pause_schedule"):
    """Skip the occurrences of a schedule."""

    schedule_id: str


class Instant(Struct, frozen=True, kw_only=True):
    """When the jobs are to be due; with a spread each has its own place in it."""

    run_at: datetime | None = None
    delay_seconds: float | None = None
    spread_seconds: int | None = None


class RescheduleJobs(Struct, frozen=True, kw_only=True, tag_field="type", tag="reschedule_jobs"):
    """Move the jobs that match now to another instant."""

    filter: BulkFilter
    to: Instant


class StepState(OpenEnum):
    """What `StepState` may be."""

    BEGUN = "begun"
    DONE = "done"
    PLANNED = "planned"
    UNDONE = "undone"


class Step(Struct, frozen=True, kw_only=True):
    """How far one change has come."""

    type: str
    state: StepState
    jobs: int
    more: bool
    changed: int


class ChangeSet(Struct, frozen=True, kw_only=True):
    """A change set; a draft comes with its effect."""

    change_set_id: str
    status: str
    note: str | None
    created_by: str
    created_at: datetime
    changed_at: datetime
    changes: list[
        PauseLane | LimitLane | PauseSchedule | ChangePolicy | Freeze | RescheduleJobs | CancelJobs
    ]
    steps: list[Step]
    effect: ChangeEffect | None = None


class ChangeSetList(Struct, frozen=True, kw_only=True):
    """Change sets, the newest first."""

    change_sets: list[ChangeSet]
    next_cursor: str | None
