"""Every page of the console, and what templates know of the nouns."""

from typing import Final

from postdate.account.page import pages as account
from postdate.audit import page as audit
from postdate.bulk_action import page as bulk_action
from postdate.change_set.page import pages as change_set
from postdate.console.page_request import ConsolePage
from postdate.destination.page import pages as destination
from postdate.event.page import pages as event
from postdate.foresight.page import load as load_ahead
from postdate.foresight.page import money as money_ahead
from postdate.job.page import dead_letter
from postdate.job.page import pages as job
from postdate.job.spec import destination_words
from postdate.lane.page import pages as lane
from postdate.monitor.page import node, overview
from postdate.payment.page import pages as payment
from postdate.receipt import page as receipt
from postdate.schedule.page import buttons as schedule_buttons
from postdate.schedule.page import pages as schedule
from postdate.search import page as search
from postdate.setting.page import pages as setting
from postdate.subscription.page import pages as subscription

PAGES: Final[tuple[ConsolePage, ...]] = (
    *overview.PAGES,
    *job.PAGES,
    *payment.PAGES,
    *receipt.PAGES,
    *schedule.PAGES,
    *account.PAGES,
    *dead_letter.PAGES,
    *destination.PAGES,
    *event.PAGES,
    *lane.PAGES,
    *node.PAGES,
    *load_ahead.PAGES,
    *money_ahead.PAGES,
    *change_set.PAGES,
    *bulk_action.PAGES,
    *setting.PAGES,
    *subscription.PAGES,
    *audit.PAGES,
    *search.PAGES,
)
FILTERS: Final = {
    "kind": destination_words.kind,
    "target": destination_words.target,
    "target_name": destination_words.target_name,
}
WORDS: Final = {
    "funding_words": payment.FUNDING,
    "served_by": lane.SERVED_BY,
}
PARTS: Final = ((schedule_buttons.PREVIEW, schedule_buttons.preview_schedule),)
"""Parts of pages that are computed from a form which is not sent yet."""
