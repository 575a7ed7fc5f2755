"""The kinds of changes in a change set; each is an operation that also exists by itself."""

from datetime import datetime
from typing import Annotated, Any, Final, Literal
from uuid import UUID

import msgspec
from msgspec import Meta

from postdate.core.field import RatePerSecond
from postdate.core.identity import Scope
from postdate.core.setting.table import SettingValue
from postdate.job.spec.bulk import BulkFilter, JobInstant
from postdate.lane.spec import LaneName
from postdate.payment.spec import payment as payment_model
from postdate.payment.spec.payment import AccountId
from postdate.schedule.spec.schedule import InsufficientFunds
from postdate.schedule.spec.spec import Jitter

MAX_CHANGES: Final = 20

At = Annotated[datetime, Meta(tz=True)]


class PaymentBulkFilter(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which pending payments; at least one member must be given."""

    from_account_id: AccountId | None = None
    to_account_id: AccountId | None = None
    schedule_id: UUID | None = None
    due_after: At | None = None
    due_before: At | None = None


class PaymentInstant(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When the payments are to be due: one of the two."""

    delay_seconds: payment_model.PaymentDelay | None = None
    scheduled_time: At | None = None


class _ItemChange(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="type", forbid_unknown_fields=True
):
    """The base of every change."""


class PauseLane(_ItemChange, frozen=True, kw_only=True, tag="pause_lane"):
    """Pause a lane."""

    lane: LaneName


class LimitLane(_ItemChange, frozen=True, kw_only=True, tag="limit_lane"):
    """Limit the jobs that a lane starts per second; null removes the limit."""

    lane: LaneName
    rate_per_second: RatePerSecond


class PauseSchedule(_ItemChange, frozen=True, kw_only=True, tag="pause_schedule"):
    """Skip the occurrences of a schedule."""

    schedule_id: UUID


class ChangePolicy(_ItemChange, frozen=True, kw_only=True, tag="change_policy"):
    """Change a schedule's jitter, or its policy for payments without funds."""

    schedule_id: UUID
    jitter_seconds: Jitter | None = None
    insufficient_funds: InsufficientFunds | None = None


class Freeze(_ItemChange, frozen=True, kw_only=True, tag="freeze"):
    """Hold everything that is due between two instants."""

    from_at: At | None = None
    until_at: At


class HaltTenant(_ItemChange, frozen=True, kw_only=True, tag="halt"):
    """Stop everything of the tenant; it is the last change of its set."""


class PutSetting(_ItemChange, frozen=True, kw_only=True, tag="put_setting"):
    """Set a run-time setting of the tenant."""

    name: Annotated[str, Meta(min_length=1, max_length=100)]
    value: SettingValue


class RescheduleJobs(_ItemChange, frozen=True, kw_only=True, tag="reschedule_jobs"):
    """Move the jobs that match now to another instant."""

    filter: BulkFilter
    to: JobInstant


class CancelJobs(_ItemChange, frozen=True, kw_only=True, tag="cancel_jobs"):
    """Cancel the jobs that match now; running ones only if the filter says RUNNING.

    The workers of those are asked to stop, which is not undone.
    """

    filter: BulkFilter


class ReschedulePayments(_ItemChange, frozen=True, kw_only=True, tag="reschedule_payments"):
    """Move the pending payments that match now to another instant; their holds stay."""

    filter: PaymentBulkFilter
    to: PaymentInstant


class CancelPayments(_ItemChange, frozen=True, kw_only=True, tag="cancel_payments"):
    """Cancel the pending payments that match now; what they hold is released."""

    filter: PaymentBulkFilter


LaneChanges = PauseLane | LimitLane
ScheduleChanges = PauseSchedule | ChangePolicy
TenantChanges = Freeze | HaltTenant | PutSetting
JobItemChanges = RescheduleJobs | CancelJobs
PaymentItemChanges = ReschedulePayments | CancelPayments
SetChange = LaneChanges | ScheduleChanges | TenantChanges | JobItemChanges | PaymentItemChanges

SCOPES: Final[dict[type[msgspec.Struct], Scope]] = {
    PauseLane: Scope.JOBS_WRITE,
    LimitLane: Scope.JOBS_WRITE,
    PauseSchedule: Scope.SCHEDULES_WRITE,
    ChangePolicy: Scope.SCHEDULES_WRITE,
    Freeze: Scope.ADMIN,
    HaltTenant: Scope.ADMIN,
    PutSetting: Scope.ADMIN,
    RescheduleJobs: Scope.JOBS_WRITE,
    CancelJobs: Scope.JOBS_WRITE,
    ReschedulePayments: Scope.PAYMENTS_WRITE,
    CancelPayments: Scope.PAYMENTS_WRITE,
}
"""What each change needs: the scope of the same operation by itself."""

KINDS: Final = {str(kind.__struct_config__.tag): kind for kind in SCOPES}


class ChangeStep(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The progress of one change, and what is needed to undo it.

    It is recorded in the transaction of the change itself, so it is always accurate.
    """

    state: Literal["planned", "begun", "done", "undone"] = "planned"
    changed: int = 0
    undoing: bool = False
    """Whether undoing has begun: from then on it only goes on, whatever is executed."""
    left: list[str] = []
    """What was not changed back, and why."""

    jobs: list[UUID] = []
    """The jobs that matched when the set was made: no others are touched."""
    payments: list[UUID] = []
    """The payments that matched when the set was made."""
    amount: int = 0
    """What these payments come to."""
    more: bool = False

    before: Any = None
    """What a single object was; True if it was already as wanted, and is left so."""

    to: datetime | None = None
    """The new instant of jobs or payments: another process that continues the step uses it too."""
    due: dict[UUID, datetime] = {}
    """The jobs or payments that this step has changed, and when each was due before."""
    revisions: dict[UUID, int] = {}
    """Revision of each moved item after the move; undo skips an item whose revision has changed."""
    restored: dict[UUID, UUID] = {}
    """Cancelled payments, and those made in their place."""
