"""What a change set may hold: each change is an operation that exists by itself."""

from datetime import datetime
from typing import Annotated, Final, Literal
from uuid import UUID

import msgspec
from msgspec import Meta

from postdate.intake.job.bulk import BulkFilter, Instant
from postdate.model.schedule.schedule import InsufficientFunds
from postdate.model.schedule.spec import Jitter
from postdate.model.tenant.identity import Scope

MAX_CHANGES: Final = 20

LaneName = Annotated[str, Meta(min_length=1, max_length=63)]
At = Annotated[datetime, Meta(tz=True)]


class _ItemChange(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="type", forbid_unknown_fields=True
):
    """The base of every change."""


class PauseLane(_ItemChange, frozen=True, kw_only=True, tag="pause_lane"):
    """Let nothing of a lane start."""

    lane: LaneName


class LimitLane(_ItemChange, frozen=True, kw_only=True, tag="limit_lane"):
    """Let a lane start no more than so many in a second; null takes the limit away."""

    lane: LaneName
    rate_per_second: Annotated[float, Meta(ge=0.001, le=1_000_000)] | None


class PauseSchedule(_ItemChange, frozen=True, kw_only=True, tag="pause_schedule"):
    """Skip the occurrences of a schedule."""

    schedule_id: UUID


class ChangePolicy(_ItemChange, frozen=True, kw_only=True, tag="change_policy"):
    """Give a schedule another jitter, or another policy for payments without funds."""

    schedule_id: UUID
    jitter_seconds: Jitter | None = None
    insufficient_funds: InsufficientFunds | None = None


class Freeze(_ItemChange, frozen=True, kw_only=True, tag="freeze"):
    """Hold everything that is due between two instants."""

    from_at: At | None = None
    until_at: At


class RescheduleJobs(_ItemChange, frozen=True, kw_only=True, tag="reschedule_jobs"):
    """Move the jobs that match now to another instant."""

    filter: BulkFilter
    to: Instant


class CancelJobs(_ItemChange, frozen=True, kw_only=True, tag="cancel_jobs"):
    """Cancel the jobs that match now."""

    filter: BulkFilter


Change = PauseLane | LimitLane | PauseSchedule | ChangePolicy | Freeze | RescheduleJobs | CancelJobs

SCOPES: Final[dict[type, Scope]] = {
    PauseLane: Scope.JOBS_WRITE,
    LimitLane: Scope.JOBS_WRITE,
    PauseSchedule: Scope.SCHEDULES_WRITE,
    ChangePolicy: Scope.SCHEDULES_WRITE,
    Freeze: Scope.ADMIN,
    RescheduleJobs: Scope.JOBS_WRITE,
    CancelJobs: Scope.JOBS_WRITE,
}
"""What each change needs: the scope of the same operation by itself."""


class ChangeStep(msgspec.Struct, kw_only=True, omit_defaults=True):
    """How far one change has come, and what is needed to undo it."""

    jobs: list[UUID] = []
    """The jobs that matched when the set was made: no others are touched."""
    more: bool = False
    paused: bool | None = None
    rate_per_second: float | None = None
    jitter_seconds: int | None = None
    insufficient_funds: InsufficientFunds | None = None
    due: dict[UUID, datetime] = {}
    to: datetime | None = None
    """The new instant of the jobs, the same whoever goes on with the step."""
    state: Literal["planned", "begun", "done", "undone"] = "planned"
    changed: int = 0
