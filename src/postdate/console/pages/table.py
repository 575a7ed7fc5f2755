"""Every page of the console."""

from typing import Final

from postdate.console.page_request import ConsolePage
from postdate.console.pages import (
    account,
    audit,
    change_set,
    dead_letter,
    destination,
    event,
    foresight,
    job,
    lane,
    node,
    overview,
    payment,
    receipt,
    schedule,
    search,
    setting,
    subscription,
)

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
    *foresight.PAGES,
    *change_set.PAGES,
    *setting.PAGES,
    *subscription.PAGES,
    *audit.PAGES,
    *search.PAGES,
)
