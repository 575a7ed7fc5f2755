"""Every action of the console."""

from typing import Final

from postdate.console.action import Action
from postdate.console.actions import (
    account,
    change_set,
    dead_letter,
    destination,
    job,
    job_bulk,
    key,
    lane,
    payment,
    schedule,
    schedule_bulk,
    setting,
    subscription,
)

ACTIONS: Final[tuple[Action, ...]] = (
    *lane.ACTIONS,
    *account.ACTIONS,
    *change_set.ACTIONS,
    *dead_letter.ACTIONS,
    *destination.ACTIONS,
    *job.ACTIONS,
    *job_bulk.ACTIONS,
    *key.ACTIONS,
    *payment.ACTIONS,
    *schedule_bulk.ACTIONS,
    *schedule.ACTIONS,
    *setting.ACTIONS,
    *subscription.ACTIONS,
)
