"""The money forecast: simulate settlement in order, on a copy of the accounts.

Instants are microseconds since the epoch here: there may be a hundred thousand payments, and only
those that are shown need a date.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from heapq import heappop, heappush
from itertools import accumulate
from operator import itemgetter, sub
from typing import Final
from uuid import UUID

import msgspec

from postdate.model.payment.money import MAX_BALANCE
from postdate.model.schedule.schedule import EPOCH

MICROSECOND: Final = timedelta(microseconds=1)
RETRY: Final = timedelta(hours=1) // MICROSECOND
"""How often a payment that waits for its money is taken to try again: the longest real wait."""

LAST: Final = 1 << 128
"""Where payments that are not stored yet stand among those of one instant: behind all ids."""

ORDER_BITS: Final = 129

SHORT: Final = "insufficient_funds"


def instant(at: datetime) -> int:
    """Return an instant as microseconds since the epoch."""
    return (at - EPOCH) // MICROSECOND


def at_instant(instant: int) -> datetime:
    """Return the date of an instant."""
    return EPOCH + timedelta(microseconds=instant)


class ExpectedTerms(msgspec.Struct, frozen=True, gc=False):
    """What is paid: by a stored payment, or by each that a schedule makes (no `payment_id`)."""

    from_account_id: str
    to_account_id: str
    amount: int
    hold: bool = False
    waits: int | None = None
    """For how many microseconds after its instant it waits for its money."""
    payment_id: UUID | None = None
    schedule_id: UUID | None = None


ExpectedPayment = tuple[int, ExpectedTerms]
"""When and what: the instant, and behind it the place among those of the same instant."""


def expected_payment(at: int, terms: ExpectedTerms) -> ExpectedPayment:
    """Return a payment that is due at an instant."""
    order = LAST if terms.payment_id is None else terms.payment_id.int
    return at << ORDER_BITS | order, terms


def due_at(expected: ExpectedPayment) -> datetime:
    """Return when a payment is due."""
    return at_instant(expected[0] >> ORDER_BITS)


def first_at(at: int) -> int:
    """Return the place before all that is due at an instant."""
    return at << ORDER_BITS


class ProjectedAccount(msgspec.Struct):
    """An account as it will be: mutable, payment after payment."""

    account_id: str
    balance: int
    held: int
    floor: int | None = 0
    frozen: bool = False
    closed: bool = False
    currency: str | None = None

    @property
    def available(self) -> int:
        """Return the balance minus what is held."""
        return self.balance - self.held


class FailingPayment(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A payment that will fail: when it is due, when it fails for good, and why."""

    due_at: datetime
    fails_at: datetime
    code: str
    from_account_id: str
    to_account_id: str
    amount: int
    available: int | None
    """What the payer will have then; null where that is not the reason."""
    payment_id: UUID | None
    schedule_id: UUID | None


class BalancePoint(msgspec.Struct, frozen=True, gc=False):
    """An account, or the sum of many, right after a change."""

    at: datetime
    balance: int
    held: int
    available: int


class ShortAccount(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An account that a payment would take below its floor."""

    account_id: str
    first_short_at: datetime
    available: int
    """What it will have then."""
    floor: int
    amount: int
    """How much the payment asks for."""


class BalanceCurve:
    """How the balance of an account, or of many together, goes: a point after each change."""

    def __init__(self, at: int, balance: int = 0, held: int = 0) -> None:
        # Columns of changes, added up at the end: there may be a hundred thousand of them.
        self._at, self._balance, self._held = [at], [balance], [held]
        self._levels: tuple[list[int], list[int]] = ([], [])

    def change(self, at: int, balance: int, held: int) -> None:
        """Add so much to the balance and to what is held."""
        self._at.append(at)
        self._balance.append(balance)
        self._held.append(held)

    def _summed(self) -> tuple[list[int], list[int]]:
        """Return the balance and what is held after each change."""
        if len(self._levels[0]) != len(self._at):
            self._levels = list(accumulate(self._balance)), list(accumulate(self._held))
        return self._levels

    def _point(self, position: int) -> BalancePoint:
        balance, held = (levels[position] for levels in self._summed())
        return BalancePoint(at_instant(self._at[position]), balance, held, balance - held)

    @property
    def points(self) -> list[BalancePoint]:
        """Return all points; there may be hundreds of thousands."""
        return [self._point(position) for position in range(len(self._at))]

    @property
    def lowest(self) -> BalancePoint:
        """Return the first point at which the least is available."""
        available = list(map(sub, *self._summed()))
        return self._point(available.index(min(available)))

    @property
    def end(self) -> BalancePoint:
        """Return the last point."""
        return self._point(-1)

    def thinned(self, count: int) -> list[BalancePoint]:
        """Return at most so many points: where there are more, the last of each stretch of time."""
        times, stretches = self._at, count - 2
        if len(times) <= count:
            return self.points
        begin, span = times[0], (times[-1] - times[0]) or RETRY
        ends = {
            bisect_left(times, end * span, key=lambda at: (at - begin) * stretches)
            for end in range(1, stretches + 2)
        }
        return [self._point(end - 1) for end in sorted(ends | {1}) if end]


Failure = tuple[int, int, str, int | None, ExpectedTerms]
"""When it fails, when it was due, why, what the payer has then, and what it was."""


class Projection(msgspec.Struct, frozen=True):
    """The simulated results of expected payments."""

    failures: list[Failure]
    """In the order of time."""
    short: dict[str, ShortAccount]
    """The accounts that fall short, by their ids, each at the first instant."""
    completed: int

    def failures_of(self, account_id: str) -> list[Failure]:
        """Return those of one payer or payee."""
        return [
            failure
            for failure in self.failures
            if account_id in (failure[4].from_account_id, failure[4].to_account_id)
        ]


def failing_payment(
    fails_at: int, due_at: int, code: str, available: int | None, terms: ExpectedTerms
) -> FailingPayment:
    """Show a failure."""
    return FailingPayment(
        due_at=at_instant(due_at),
        fails_at=at_instant(fails_at),
        code=code,
        from_account_id=terms.from_account_id,
        to_account_id=terms.to_account_id,
        amount=terms.amount,
        available=available,
        payment_id=terms.payment_id,
        schedule_id=terms.schedule_id,
    )


class BalanceWatch(msgspec.Struct, frozen=True):
    """Which changes are drawn as curves: those of one account, those of all by currency."""

    account_id: str | None = None
    account: BalanceCurve | None = None
    totals: Mapping[str | None, BalanceCurve] = {}
    """Accounts without a floor, such as the issuer, are in no total: money comes from them."""

    def curves(self, account: ProjectedAccount) -> tuple[BalanceCurve, ...]:
        """Return the curves of which an account is a part."""
        own = self.account if account.account_id == self.account_id else None
        total = None if account.floor is None else self.totals.get(account.currency)
        return tuple(each for each in (own, total) if each is not None)


def project(
    accounts: Mapping[str, ProjectedAccount],
    expected: Iterable[ExpectedPayment],
    watch: BalanceWatch | None = None,
) -> Projection:
    """Settle payments by due time and id, changing the accounts; a credit is spendable at once."""
    settlement = _Settlement(accounts, watch or BalanceWatch())
    again, settle = settlement.again, settlement.settle
    ordered = sorted(expected, key=itemgetter(0))
    for place, terms in ordered:
        while again and again[0][0] <= place:
            settlement.retry()
        at = place >> ORDER_BITS
        settle(at, at, terms)
    while again:
        settlement.retry()
    failures = settlement.failures
    return Projection(failures, settlement.short, len(ordered) - len(failures))


class _Settlement:
    """Decides one payment after the other, by the rules of `ledger.settle`."""

    def __init__(self, accounts: Mapping[str, ProjectedAccount], watch: BalanceWatch) -> None:
        self._accounts = accounts
        drawn = ((name, watch.curves(account)) for name, account in accounts.items())
        alike: dict[tuple[BalanceCurve, ...], tuple[BalanceCurve, ...]] = {}
        self._curves = {name: alike.setdefault(curves, curves) for name, curves in drawn}
        """Accounts that are part of the same curves have one tuple."""
        usable = (each for each in accounts.values() if not (each.closed or each.frozen))
        self._usable = {each.account_id: (each, self._curves[each.account_id]) for each in usable}
        """Those that take part in payments, with their curves: looked up for each payment."""
        self.again: list[tuple[int, int, int, ExpectedTerms]] = []
        """A heap of what waits for its money: its place, a number, when it was due, the terms."""
        self._waiting = 0
        self.failures: list[Failure] = []
        self.short: dict[str, ShortAccount] = {}

    def retry(self) -> None:
        """Try the first of those again that wait for their money."""
        place, _, due_at, terms = heappop(self.again)
        self.settle(place >> ORDER_BITS, due_at, terms)

    def settle(self, at: int, due_at: int, terms: ExpectedTerms) -> None:
        """Settle a payment that was due some time ago, or have it wait, or fail."""
        # This runs for each of a hundred thousand payments: it calls as little as it can.
        try:
            payer, own = self._usable[terms.from_account_id]
            payee, other = self._usable[terms.to_account_id]
        except KeyError:
            self._fail(at, due_at, self._unusable(terms), terms)
            return
        amount, floor = terms.amount, payer.floor
        released = amount if terms.hold else 0
        if payer.currency != payee.currency:
            self._fail(at, due_at, "currency_mismatch", terms)
        elif payee.balance + amount > MAX_BALANCE:
            self._fail(at, due_at, "balance_above_limit", terms)
        elif released or floor is None or payer.balance - payer.held - amount >= floor:
            payer.balance -= amount
            payer.held -= released
            payee.balance += amount
            if own is other:
                # In a total of both it is one change: the money is never in neither account.
                for curve in own:
                    curve.change(at, 0, -released)
            else:
                _draw(at, amount, released, own, other)
        else:
            self._fall_short(at, due_at, payer, terms)

    def _unusable(self, terms: ExpectedTerms) -> str:
        """Return why a payment fails whose payer or payee takes no part in payments."""
        found = [self._accounts.get(name) for name in (terms.from_account_id, terms.to_account_id)]
        known = [each for each in found if each is not None]
        if len(known) < len(found):
            return "account_missing"
        first = next(each for each in known if each.closed or each.frozen)
        return "account_closed" if first.closed else "account_frozen"

    def _fall_short(
        self, at: int, due_at: int, payer: ProjectedAccount, terms: ExpectedTerms
    ) -> None:
        """Have a payment wait for its money, or fail where it waits no longer."""
        if payer.account_id not in self.short:
            self.short[payer.account_id] = _short(payer, terms, at)
        until = due_at + (terms.waits or 0)
        if at >= until:
            self._fail(at, due_at, SHORT, terms, payer.available)
            return
        self._waiting += 1
        place, _ = expected_payment(min(at + RETRY, until), terms)
        heappush(self.again, (place, self._waiting, due_at, terms))

    def _fail(
        self, at: int, due_at: int, code: str, terms: ExpectedTerms, available: int | None = None
    ) -> None:
        self.failures.append((at, due_at, code, available, terms))
        payer = self._accounts.get(terms.from_account_id)
        if payer is not None and terms.hold:
            payer.held -= terms.amount
            for curve in self._curves[terms.from_account_id]:
                curve.change(at, 0, -terms.amount)


def _draw(
    at: int, amount: int, released: int, own: Sequence[BalanceCurve], other: Sequence[BalanceCurve]
) -> None:
    """Draw a payment from one account to another that is not part of all the same curves."""
    for curve in own:
        curve.change(at, 0 if curve in other else -amount, -released)
    for curve in other:
        if curve not in own:
            curve.change(at, amount, 0)


def _short(payer: ProjectedAccount, terms: ExpectedTerms, at: int) -> ShortAccount:
    return ShortAccount(
        account_id=payer.account_id,
        first_short_at=at_instant(at),
        available=payer.available,
        floor=payer.floor or 0,
        amount=terms.amount,
    )
