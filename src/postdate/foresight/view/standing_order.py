"""Standing orders: the payments that schedules will make, listed once for all questions."""

from bisect import bisect_left
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice, repeat
from operator import itemgetter
from sys import intern
from threading import Lock
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

from postdate.core.work import spend
from postdate.foresight.spec.balance import MICROSECOND, ORDER_BITS, first_at, instant
from postdate.foresight.spec.money import LAST, ExpectedPayment, ExpectedTerms, ordered
from postdate.foresight.spec.rule_count import run_seconds
from postdate.foresight.view.rules import PlannedSchedule, RuleBook
from postdate.schedule.spec.schedule import FundsPolicy, InsufficientFunds
from postdate.words.error import RefusedError

ORDER_LIMIT: Final = 100_000
"""How many payments of schedules are settled in all."""

KEPT: Final = timedelta(hours=1)
"""For how long a list serves; it also reaches this much further than was asked for."""

MAX_LISTED: Final = 300_000
"""How many payments of schedules are remembered, of all tenants together."""

DAY: Final = timedelta(days=1)
FOREVER: Final = datetime.max.replace(tzinfo=UTC)
SECOND: Final = timedelta(seconds=1) // MICROSECOND


class OrderList(NamedTuple):
    """The payments of some schedules within a window, in the order of settlement."""

    since: datetime
    until: datetime
    known_until: datetime
    """Where there are too many, the list ends here."""
    payments: list[ExpectedPayment]
    left_out: int = 0
    """How many schedules are not in the list, because following their rules takes too long."""

    def serves(self, now: datetime, until: datetime) -> bool:
        """Return whether it has what a window asks for, or as much of it as a new list would."""
        is_fresh = self.since <= now < self.since + KEPT
        return is_fresh and (until <= self.known_until or 0 <= (self.until - until) // KEPT <= 1)

    def within(self, now: datetime, until: datetime) -> list[ExpectedPayment]:
        """Return the payments after one instant and before another."""
        low, high = first_at(instant(now) + 1), first_at(instant(min(until, self.known_until)))
        begin, end = (bisect_left(self.payments, at, key=itemgetter(0)) for at in (low, high))
        return self.payments[begin:end]


class OrderLists:
    """Remembers the lists of the rule books that were asked for."""

    def __init__(self) -> None:
        self._known: WeakKeyDictionary[RuleBook, OrderList] = WeakKeyDictionary()
        self._lock = Lock()
        """Threads list for several tenants at once: none may add a list while one counts them."""

    def get(self, book: RuleBook, now: datetime, until: datetime) -> OrderList:
        """Return a list of what the schedules will pay in a window; best off the event loop."""
        with self._lock:
            known = self._known.get(book)
        if known is None or not known.serves(now, until):
            known = listed(book, now, until + KEPT)
            self.keep(book, known)
        return known

    def keep(self, book: RuleBook, known: OrderList) -> None:
        """Remember a list."""
        with self._lock:
            kept = sum(len(each.payments) for each in self._known.values())
            if kept + len(known.payments) > MAX_LISTED:
                self._known.clear()
            self._known[book] = known


def listed(book: RuleBook, now: datetime, until: datetime, limit: int = ORDER_LIMIT) -> OrderList:
    """List the payments that schedules will make until an instant.

    Where there are too many, the window is cut in halves until they are few enough.
    """
    terms = list(_terms(book))
    known_until = min(until, _dense_until(book, now, limit))
    while (found := _payments(book, terms, now, known_until, limit)) is None:
        known_until = now + (known_until - now) / 2
    payments, left_out = found
    return OrderList(now, until, known_until, ordered(payments), left_out)


def _dense_until(book: RuleBook, now: datetime, limit: int) -> datetime:
    """Return when `limit` payments are made, if some rules are too dense to be listed.

    Dense rules are followed one by one, which must not be repeated for each half of a window.
    """
    if all(each.rule.times not in book.dense for each in book.orders):
        return FOREVER
    rate = sum(each.rule.times.size for each in book.orders)
    return now + DAY * max(1, limit - len(book.orders)) / rate


def _payments(
    book: RuleBook, terms: list[ExpectedTerms], now: datetime, until: datetime, limit: int
) -> tuple[list[ExpectedPayment], int] | None:
    """Return what the schedules will pay, in no order, and how many of them are left out.

    None where that is too much.
    """
    found: list[ExpectedPayment] = []
    left_out = 0
    for planned, own in zip(book.orders, terms, strict=True):
        before = len(found)
        try:
            places = (at << ORDER_BITS | LAST for at in _instants(book, planned, now, until))
            found.extend(zip(islice(places, limit + 1 - before), repeat(own)))
        except RefusedError:
            # Half of a rule would look like one that ends.
            del found[before:]
            left_out += 1
        spend(1 + (len(found) - before) // 2)
        if len(found) > limit:
            return None
    return found, left_out


def _terms(book: RuleBook) -> Iterator[ExpectedTerms]:
    """Return what each standing order pays."""
    for planned in book.orders:
        payment = planned.schedule.payment
        if payment is not None:
            yield ExpectedTerms(
                from_account_id=intern(payment.from_account_id),
                to_account_id=intern(payment.to_account_id),
                amount=payment.amount,
                waits=waiting_time(planned.funds),
                schedule_id=planned.schedule.schedule_id,
            )


def waiting_time(funds: InsufficientFunds) -> int | None:
    """Return for how many microseconds a payment of a schedule waits for its money."""
    return funds.retry_seconds * SECOND if funds.policy is FundsPolicy.RETRY else None


def _instants(
    book: RuleBook, planned: PlannedSchedule, now: datetime, until: datetime
) -> Iterator[int]:
    """Return when a schedule makes its payments, in no order."""
    schedule, shift, rule = planned.schedule, planned.shift, planned.rule
    runs, ahead = rule.plan.rule.max_runs, shift // MICROSECOND
    after, before = max(schedule.handled, now - shift), until - shift
    if runs is None and rule.times not in book.dense and rule.is_regular(before):
        return (at * SECOND + ahead for at in run_seconds(rule, after, before))
    if runs is None:
        return (instant(at) + ahead for at in rule.occurrences(after, before))
    # Runs are counted as of what was handled when the rule was read: some may have been since.
    left = max(0, runs - schedule.runs)
    walked = islice(rule.occurrences(schedule.handled, before), left)
    return (instant(at) + ahead for at in walked if at > after)
