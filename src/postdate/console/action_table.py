"""Every action of the console."""

from typing import Final

from postdate.account.page import actions as account
from postdate.change_set.page import actions as change_set
from postdate.console.action import Action
from postdate.destination.page import actions as destination
from postdate.job.page import actions as job
from postdate.job.page import bulk_actions as job_bulk
from postdate.job.page import dead_letter_actions as dead_letter
from postdate.key import page as key
from postdate.lane.page import actions as lane
from postdate.payment.page import actions as payment
from postdate.schedule.page import actions as schedule
from postdate.schedule.page import bulk_actions as schedule_bulk
from postdate.setting.page import actions as setting
from postdate.subscription.page import actions as subscription

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
