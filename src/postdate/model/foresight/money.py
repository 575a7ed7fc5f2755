"""Money ahead: settle what is expected in the order of settlement, on a copy of the accounts."""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from heapq import heappop, heappush
from itertools import starmap
from typing import Final
from uuid import UUID

import msgspec

from postdate.model.payment.money import MAX_BALANCE

RETRY: Final = timedelta(hours=1)
"""How often a payment that waits for its money is taken to try again: the longest real wait."""

LAST: Final = 2**128
"""Where payments that are not stored yet stand among those of one instant."""

SHORT: Final = "insufficient_funds"


class ExpectedPayment(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A payment that is stored, or one that a schedule will make (`payment_id` is None)."""

    due_at: datetime
    from_account_id: str
    to_account_id: str
    amount: int
    hold: bool = False
    retry_until: datetime | None = None
    payment_id: UUID | None = None
    schedule_id: UUID | None = None


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
        """Return what is not reserved."""
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

    def __init__(self, at: datetime, balance: int = 0, held: int = 0) -> None:
        self._balance = balance
        self._held = held
        self._changes = [(at, balance, held)]

    def change(self, at: datetime, balance: int, held: int) -> None:
        """Add so much to the balance and to what is held."""
        self._balance += balance
        self._held += held
        self._changes.append((at, self._balance, self._held))

    @property
    def points(self) -> list[BalancePoint]:
        """Return all points; there may be hundreds of thousands."""
        return list(starmap(_point, self._changes))

    @property
    def lowest(self) -> BalancePoint:
        """Return the first point at which the least is available."""
        return _point(*min(self._changes, key=lambda change: change[1] - change[2]))

    @property
    def end(self) -> BalancePoint:
        """Return the last point."""
        return _point(*self._changes[-1])

    def thinned(self, count: int) -> list[BalancePoint]:
        """Return at most so many points: where there are more, the last of each stretch of time."""
        changes, stretches = self._changes, count - 2
        if len(changes) <= count:
            return self.points
        begin, span = changes[0][0], (changes[-1][0] - changes[0][0]) or RETRY
        ends = {
            bisect_left(changes, end * span, key=lambda change: (change[0] - begin) * stretches)
            for end in range(1, stretches + 2)
        }
        return [_point(*changes[place - 1]) for place in sorted(ends | {1}) if place]


def _point(at: datetime, balance: int, held: int) -> BalancePoint:
    return BalancePoint(at, balance, held, balance - held)


class Projection(msgspec.Struct, frozen=True):
    """What becomes of expected payments."""

    failing: list[FailingPayment]
    short: dict[str, ShortAccount]
    """The accounts that fall short, by their ids, each at the first instant."""
    completed: int


class BalanceWatch(msgspec.Struct, frozen=True):
    """Which changes are drawn as curves: those of one account, those of all by currency."""

    account_id: str | None = None
    account: BalanceCurve | None = None
    totals: Mapping[str | None, BalanceCurve] = {}
    """Accounts without a floor, such as the issuer, are in no total: money comes from them."""

    def curves(self, account: ProjectedAccount) -> list[BalanceCurve]:
        """Return the curves of which an account is a part."""
        own = self.account if account.account_id == self.account_id else None
        total = None if account.floor is None else self.totals.get(account.currency)
        return [each for each in (own, total) if each is not None]


def project(
    accounts: Mapping[str, ProjectedAccount],
    expected: Iterable[ExpectedPayment],
    watch: BalanceWatch | None = None,
) -> Projection:
    """Settle payments by due time and id, changing the accounts; a credit is spendable at once."""
    queue = [
        (each.due_at, LAST if each.payment_id is None else each.payment_id.int, number, each)
        for number, each in enumerate(expected)
    ]
    queue.sort(reverse=True)
    watch = watch or BalanceWatch()
    curves = {name: watch.curves(account) for name, account in accounts.items()}
    again: list[tuple[datetime, int, int, ExpectedPayment]] = []
    failing: list[FailingPayment] = []
    short: dict[str, ShortAccount] = {}
    completed = 0
    while queue or again:
        # Few try again: only those are kept as a heap.
        first = not again or (queue and queue[-1] < again[0])
        at, order, number, each = queue.pop() if first else heappop(again)
        payer, payee = accounts.get(each.from_account_id), accounts.get(each.to_account_id)
        code = _refused(payer, payee, each)
        if code == SHORT and payer is not None and payer.account_id not in short:
            short[payer.account_id] = _short(payer, each, at)
        until = each.retry_until
        if code == SHORT and until is not None and at < until:
            heappush(again, (min(at + RETRY, until), order, number, each))
            continue
        completed += code is None
        if code is not None:
            failing.append(_failing(each, at, code, payer))
        _settle(at, each, payer, payee if code is None else None, curves)
    return Projection(failing, short, completed)


def _settle(
    at: datetime,
    each: ExpectedPayment,
    payer: ProjectedAccount | None,
    payee: ProjectedAccount | None,
    curves: Mapping[str, Sequence[BalanceCurve]],
) -> None:
    """Let go what is held, and move the money if there is a payee."""
    if payer is None or (payee is None and not each.hold):
        return
    paid, released = each.amount if payee else 0, each.amount if each.hold else 0
    payer.balance -= paid
    payer.held -= released
    if payee is not None:
        payee.balance += paid
    # In a total of both it is one change: the money is never in neither account.
    own, other = curves[payer.account_id], curves[payee.account_id] if payee is not None else []
    for curve in own:
        curve.change(at, 0 if curve in other else -paid, -released)
    for curve in other:
        if curve not in own:
            curve.change(at, paid, 0)


def _short(payer: ProjectedAccount, each: ExpectedPayment, at: datetime) -> ShortAccount:
    return ShortAccount(
        account_id=payer.account_id,
        first_short_at=at,
        available=payer.available,
        floor=payer.floor or 0,
        amount=each.amount,
    )


def _refused(
    payer: ProjectedAccount | None, payee: ProjectedAccount | None, each: ExpectedPayment
) -> str | None:
    """Return why a payment cannot be settled, by the rules of `ledger.settle`."""
    if payer is None or payee is None:
        return "account_missing"
    for account in (payer, payee):
        if account.closed or account.frozen:
            return "account_closed" if account.closed else "account_frozen"
    if payer.currency != payee.currency:
        return "currency_mismatch"
    if payee.balance + each.amount > MAX_BALANCE:
        return "balance_above_limit"
    if each.hold or payer.floor is None or payer.available - each.amount >= payer.floor:
        return None
    return SHORT


def _failing(
    each: ExpectedPayment, at: datetime, code: str, payer: ProjectedAccount | None
) -> FailingPayment:
    short = payer is not None and code == SHORT
    return FailingPayment(
        due_at=each.due_at,
        fails_at=at,
        code=code,
        from_account_id=each.from_account_id,
        to_account_id=each.to_account_id,
        amount=each.amount,
        available=payer.available if short and payer is not None else None,
        payment_id=each.payment_id,
        schedule_id=each.schedule_id,
    )
