"""Every button of the console."""

from typing import Final

from postdate.account.page import buttons as account
from postdate.bulk_action import page as bulk_action
from postdate.change_set.page import buttons as change_set
from postdate.change_set.page import what_if_buttons as what_if
from postdate.console.button import Button
from postdate.destination.page import buttons as destination
from postdate.halt import page as halt
from postdate.job.page import bulk_buttons as job_bulk
from postdate.job.page import buttons as job
from postdate.job.page import dead_letter_buttons as dead_letter
from postdate.key import page as key
from postdate.lane.page import buttons as lane
from postdate.payment.page import buttons as payment
from postdate.schedule.page import bulk_buttons as schedule_bulk
from postdate.schedule.page import buttons as schedule
from postdate.setting.page import buttons as setting
from postdate.subscription.page import buttons as subscription

BUTTONS: Final[tuple[Button, ...]] = tuple(
    button
    for module in (
        account,
        bulk_action,
        change_set,
        dead_letter,
        destination,
        halt,
        job,
        job_bulk,
        key,
        lane,
        payment,
        schedule,
        schedule_bulk,
        setting,
        subscription,
        what_if,
    )
    for button in module.BUTTONS
)
BUTTON_BY_KEY: Final = {button.key: button for button in BUTTONS}
