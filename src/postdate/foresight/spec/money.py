"""The money forecast: simulate settlement in order, on a copy of the accounts.

Instants are microseconds since the epoch here: there may be a hundred thousand payments, and only
shown payments need a date.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from heapq import heappop, heappush
from itertools import repeat
from operator import itemgetter
from typing import Final, TypeVar
from uuid import UUID

import msgspec

from postdate.core.money import MAX_BALANCE
from postdate.core.work import spend
from postdate.foresight.spec.balance import (
    MICROSECOND,
    ORDER_BITS,
    BalanceCurve,
    at_instant,
    first_at,
    instant,
)

T = TypeVar("T")

RETRY: Final = timedelta(hours=1) // MICROSECOND
"""How often a payment that waits for its money is taken to try again: the longest real wait."""

MAX_WAITS: Final = 1_000_000
"""After this many tries of all payments, a waiting payment is tried only once more, at its end."""

LAST: Final = 1 << 128
"""Where payments that are not stored yet stand among those of one instant: behind all ids."""

SHORT: Final = "insufficient_funds"

PART_BITS: Final = ORDER_BITS + 32
"""What is due within 2^32 microseconds, which is 72 minutes, is sorted at once."""

PIECE: Final = 4096
"""Number of payments that are merged at once."""

BOUNDLESS: Final = 1 << 100
"""What an account without a floor may spend: more than all payments together."""


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
"""When and what: the instant, and behind it the position among those of the same instant."""


def expected_payment(at: int, terms: ExpectedTerms) -> ExpectedPayment:
    """Return a payment that is due at an instant."""
    order = LAST if terms.payment_id is None else terms.payment_id.int
    return at << ORDER_BITS | order, terms


def due_at(expected: ExpectedPayment) -> datetime:
    """Return when a payment is due."""
    return at_instant(expected[0] >> ORDER_BITS)


def ordered(payments: Iterable[ExpectedPayment]) -> list[ExpectedPayment]:
    """Return payments in the order of settlement."""
    return sorted_in_parts(payments, itemgetter(0), PART_BITS)


def sorted_in_parts(items: Iterable[T], position: Callable[[T], int], bits: int) -> list[T]:
    """Sort items by their positions, in parts whose positions differ only in the low `bits` bits.

    No other thread runs while a list is being sorted, so that the lists must be short.
    """
    parts: dict[int, list[T]] = defaultdict(list)
    for each in items:
        parts[position(each) >> bits].append(each)
    return [each for at in sorted(parts) for each in sorted(parts[at], key=position)]


def merged(
    one: Sequence[ExpectedPayment], other: Sequence[ExpectedPayment]
) -> list[ExpectedPayment]:
    """Merge two lists that are in the order of settlement, piece by piece."""
    found: list[ExpectedPayment] = []
    done, position = 0, itemgetter(0)
    for first in range(0, len(one), PIECE):
        piece = one[first : first + PIECE]
        end = bisect_left(other, piece[-1][0], lo=done, key=position)
        found += sorted([*piece, *other[done:end]], key=position)
        done = end
    found += other[done:]
    return found


def before(payments: Sequence[ExpectedPayment], until: datetime) -> Sequence[ExpectedPayment]:
    """Return those of a list in the order of settlement that are due before an instant."""
    return payments[: bisect_left(payments, first_at(instant(until)), key=itemgetter(0))]


class ProjectedAccount(msgspec.Struct, frozen=True):
    """An account as it is when the forecast begins."""

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

    @property
    def free(self) -> int:
        """Return how much it may spend until it is at its floor."""
        return BOUNDLESS if self.floor is None else self.available - self.floor


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
    currency: str | None = None


class ShortAccount(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An account that a payment would take below its floor."""

    account_id: str
    first_short_at: datetime
    available: int
    """What it will have then."""
    floor: int
    amount: int
    """How much the payment asks for."""
    currency: str | None = None
    missing: int = 0
    """How much must be paid in so that all its payments of the window are settled when due."""
    pay_in_by: datetime | None = None
    """Before when; null if nothing is missing once the other accounts have what they miss."""


Failure = tuple[int, int, str, int | None, ExpectedTerms]
"""When it fails, when it was due, why, what the payer has then, and what it was."""


class Projection(msgspec.Struct, frozen=True):
    """The simulated results of expected payments."""

    failures: list[Failure]
    """In the order of time."""
    short: dict[str, ShortAccount]
    """The accounts that fall short, by their ids, each at the first instant."""
    done: list[ExpectedPayment]
    """Completed payments, each with the position of its completion, in order."""
    released: list[tuple[int, int, ExpectedTerms]]
    """Failed payments with a hold: how many completed before, the position, the terms."""
    names: frozenset[str]
    """All accounts."""

    @property
    def completed(self) -> int:
        """Return how many payments complete."""
        return len(self.done)

    def failures_of(self, account_id: str) -> list[Failure]:
        """Return those of one payer or payee."""
        own = account_id
        return [f for f in self.failures if own in (f[4].from_account_id, f[4].to_account_id)]

    def draw(self, curves: Mapping[str, BalanceCurve]) -> None:
        """Draw what changes into the curves of accounts; several may have one curve."""
        distinct = {*curves.values()}
        is_one = len(distinct) == 1 and self.names <= curves.keys()
        draw = partial(_draw_all, distinct.pop()) if is_one else partial(_draw, curves)
        drawn = 0
        for count, position, terms in self.released:
            draw(self.done[drawn:count])
            drawn = count
            if (curve := curves.get(terms.from_account_id)) is not None:
                curve.change(position, 0, -terms.amount)
        draw(self.done[drawn:])


def _draw_all(curve: BalanceCurve, done: Sequence[ExpectedPayment]) -> None:
    """Draw completed payments into the curve of all accounts: no money comes or goes."""
    curve.extend(
        [position for position, _ in done],
        repeat(0, len(done)),
        [-terms.amount if terms.hold else 0 for _, terms in done],
    )


def _draw(curves: Mapping[str, BalanceCurve], done: Sequence[ExpectedPayment]) -> None:
    """Draw completed payments into the curves of the payers and payees.

    One between two accounts of a curve is one change: the money is never in neither of them.
    """
    for position, terms in done:
        own, other = curves.get(terms.from_account_id), curves.get(terms.to_account_id)
        amount = terms.amount
        if own is not None:
            own.change(position, 0 if own is other else -amount, -amount if terms.hold else 0)
        if other is not None and own is not other:
            other.change(position, amount, 0)


def failing_payment(failure: Failure, accounts: Mapping[str, ProjectedAccount]) -> FailingPayment:
    """Show a failure, in the currency of its payer."""
    fails_at, due_at, code, available, terms = failure
    payer = accounts.get(terms.from_account_id)
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
        currency=None if payer is None else payer.currency,
    )


def project(
    accounts: Mapping[str, ProjectedAccount], payments: Sequence[ExpectedPayment]
) -> Projection:
    """Settle payments that are in the order of settlement; a credit is spendable at once."""
    settlement = ProjectedSettlement(accounts)
    settlement.settle_all(payments)
    return Projection(
        settlement.failures,
        settlement.short,
        settlement.done,
        settlement.released,
        frozenset(accounts),
    )


class ProjectedSettlement:
    """Decides one payment after the other, by the rules of `ledger.settle`."""

    def __init__(self, accounts: Mapping[str, ProjectedAccount]) -> None:
        self._accounts = accounts
        usable = [each for each in accounts.values() if not (each.closed or each.frozen)]
        self.free = {each.account_id: each.free for each in usable}
        """Available amounts of the accounts that take part in payments."""
        self.balance = {each.account_id: each.balance for each in usable}
        self._again: list[tuple[int, int, int, ExpectedTerms]] = []
        """A heap of what waits for its money: position, a number, when it was due, the terms."""
        self._waiting = 0
        self.failures: list[Failure] = []
        self.short: dict[str, ShortAccount] = {}
        self.done: list[ExpectedPayment] = []
        self.released: list[tuple[int, int, ExpectedTerms]] = []

    def settle_all(self, payments: Sequence[ExpectedPayment]) -> None:
        """Settle payments, and then what still waits for its money."""
        spend(len(payments))
        sure = self._sure(payments)
        if None not in sure.values() and len({*sure.values()}) == 1:
            self.done.extend(payments)
            return
        again, done = self._again, self.done.append
        for each in payments:
            position, terms = each
            if again and again[0][0] <= position:
                self._retry(position)
            own = sure[terms.from_account_id]
            if own is not None and own is sure[terms.to_account_id]:
                done(each)
            else:
                self.settle(position, position >> ORDER_BITS, terms)
        self._retry(None)

    def _sure(self, payments: Sequence[ExpectedPayment]) -> dict[str, tuple[str | None] | None]:
        """Return the currency of each account that cannot fail a payment, None for the others.

        Such an account can pay all that it is to pay from what it has now, without any credit, and
        its balance is below the limit with all credits. A payment between two of them completes,
        whatever happens before, and need not be followed. What `settle` knows of them is then not
        right, but it is never less than what they are still to pay, nor above the limit.
        """
        spent, received = dict.fromkeys(self.free, 0), dict.fromkeys(self.free, 0)
        found: dict[str, tuple[str | None] | None] = {}
        # These run for each of a hundred thousand payments: they call as little as they can.
        for _, terms in payments:
            amount = terms.amount
            try:
                received[terms.to_account_id] += amount
                spent[terms.from_account_id] += 0 if terms.hold else amount
            except KeyError:
                found[terms.from_account_id] = found[terms.to_account_id] = None
        currencies: dict[str | None, tuple[str | None]] = {}
        for name in self.free.keys() - found.keys():
            is_funded = self.free[name] >= spent[name]
            is_sure = is_funded and self.balance[name] + received[name] <= MAX_BALANCE
            currency = self._accounts[name].currency
            found[name] = currencies.setdefault(currency, (currency,)) if is_sure else None
        return found

    def _retry(self, until: int | None) -> None:
        """Try those again that wait for their money, up to a position."""
        while self._again and (until is None or self._again[0][0] <= until):
            position, _, due_at, terms = heappop(self._again)
            spend(2)
            self.settle(position, due_at, terms)

    def settle(self, position: int, due_at: int, terms: ExpectedTerms) -> None:
        """Settle a payment that was due some time ago, or have it wait, or fail."""
        payer, payee, amount = terms.from_account_id, terms.to_account_id, terms.amount
        code = self._refused(payer, payee, amount)
        if code is not None:
            self._fail(position >> ORDER_BITS, due_at, code, terms)
        elif terms.hold or self.free[payer] >= amount:
            self.free[payer] -= 0 if terms.hold else amount
            self.free[payee] += amount
            self.balance[payer] -= amount
            self.balance[payee] += amount
            self.done.append((position, terms))
        else:
            self.fall_short(position >> ORDER_BITS, due_at, terms)

    def _refused(self, payer: str, payee: str, amount: int) -> str | None:
        """Return why a payment fails whatever its payer has."""
        if payer not in self._accounts or payee not in self._accounts:
            return "account_missing"
        for name in (payer, payee):
            if name not in self.free:
                return "account_closed" if self._accounts[name].closed else "account_frozen"
        if self._accounts[payer].currency != self._accounts[payee].currency:
            return "currency_mismatch"
        is_too_much = self.balance[payee] + amount > MAX_BALANCE
        return "balance_above_limit" if is_too_much else None

    def fall_short(self, at: int, due_at: int, terms: ExpectedTerms) -> None:
        """Have a payment wait for its money, or fail where it waits no longer."""
        payer = self._accounts[terms.from_account_id]
        floor = payer.floor or 0
        available = self.free[payer.account_id] + floor
        if payer.account_id not in self.short:
            self.short[payer.account_id] = ShortAccount(
                account_id=payer.account_id,
                first_short_at=at_instant(at),
                available=available,
                floor=floor,
                amount=terms.amount,
                currency=payer.currency,
            )
        until = due_at + (terms.waits or 0)
        if at >= until:
            self._fail(at, due_at, SHORT, terms, available)
            return
        self._waiting += 1
        again = min(at + RETRY, until) if self._waiting <= MAX_WAITS else until
        position, _ = expected_payment(again, terms)
        heappush(self._again, (position, self._waiting, due_at, terms))

    def _fail(
        self, at: int, due_at: int, code: str, terms: ExpectedTerms, available: int | None = None
    ) -> None:
        self.failures.append((at, due_at, code, available, terms))
        payer = terms.from_account_id
        if terms.hold and payer in self._accounts:
            self.released.append((len(self.done), first_at(at), terms))
            if payer in self.free:
                self.free[payer] += terms.amount
