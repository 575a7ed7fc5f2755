"""Map each kind of change to the operation that makes and undoes it."""

from typing import Any

from postdate.change_set.change.change import (
    CancelJobs,
    CancelPayments,
    ChangePolicy,
    Freeze,
    HaltTenant,
    LimitLane,
    PauseLane,
    PauseSchedule,
    PutSetting,
    RescheduleJobs,
    ReschedulePayments,
    SetChange,
)
from postdate.change_set.change.job_operation import JobOperation
from postdate.change_set.change.lane_operation import LaneOperation
from postdate.change_set.change.payment_operation import PaymentOperation
from postdate.change_set.change.schedule_operation import ScheduleOperation
from postdate.change_set.change.step_work import ChangeOperation
from postdate.change_set.change.tenant_operation import HaltOperation, SettingOperation


class Operations:
    """Finds the operation of each kind of change."""

    def __init__(
        self,
        *,
        lane: LaneOperation,
        schedule: ScheduleOperation,
        halt: HaltOperation,
        setting: SettingOperation,
        job: JobOperation,
        payment: PaymentOperation,
    ) -> None:
        self.check_killed = halt.check_killed
        self._by_kind: dict[type, ChangeOperation[Any]] = {
            PauseLane: lane,
            LimitLane: lane,
            PauseSchedule: schedule,
            ChangePolicy: schedule,
            Freeze: halt,
            HaltTenant: halt,
            PutSetting: setting,
            RescheduleJobs: job,
            CancelJobs: job,
            ReschedulePayments: payment,
            CancelPayments: payment,
        }

    def of(self, change: SetChange) -> ChangeOperation[Any]:
        """Return the operation of a change."""
        return self._by_kind[type(change)]
