"""Money ahead: settle what is expected in the order of settlement, on a copy of the accounts."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from heapq import heappop, heappush
from typing import Final
from uuid import UUID

import msgspec

from postdate.model.payment.money import MAX_BALANCE

RETRY: Final = timedelta(hours=1)
"""How often a payment that waits for its money is taken to try again: the longest real wait."""

LAST: Final = 2**128
"""Where payments that are not stored yet stand among those of one instant."""

SHORT: Final = "insufficient_funds"


class ExpectedPayment(msgspec.Struct, frozen=True, kw_only=True):
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


class FailingPayment(msgspec.Struct, frozen=True, kw_only=True):
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


class BalancePoint(msgspec.Struct, frozen=True):
    """An account, or the sum of many, right after a change."""

    at: datetime
    balance: int
    held: int
    available: int


class ShortAccount(msgspec.Struct, frozen=True, kw_only=True):
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
        self.points = [BalancePoint(at, balance, held, balance - held)]

    def change(self, at: datetime, balance: int, held: int) -> None:
        """Add so much to the balance and to what is held."""
        self._balance += balance
        self._held += held
        available = self._balance - self._held
        self.points.append(BalancePoint(at, self._balance, self._held, available))

    @property
    def lowest(self) -> BalancePoint:
        """Return the first point at which the least is available."""
        return min(self.points, key=lambda point: point.available)

    def thinned(self, count: int) -> list[BalancePoint]:
        """Return at most so many points: where there are more, the last of each stretch of time."""
        points = self.points
        if len(points) <= count:
            return points
        begin, span = points[0].at, points[-1].at - points[0].at
        found = {(each.at - begin) * (count - 2) // (span or RETRY): each for each in points[1:]}
        return [points[0], *found.values()]


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

    def draw(self, at: datetime, account: ProjectedAccount, balance: int, held: int) -> None:
        """Draw a change of an account."""
        if self.account is not None and account.account_id == self.account_id:
            self.account.change(at, balance, held)
        if account.floor is not None and (total := self.totals.get(account.currency)) is not None:
            total.change(at, balance, held)


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
    queue.sort()  # a sorted list is a heap
    watch = watch or BalanceWatch()
    failing: list[FailingPayment] = []
    short: dict[str, ShortAccount] = {}
    completed = 0
    while queue:
        at, order, number, each = heappop(queue)
        payer, payee = accounts.get(each.from_account_id), accounts.get(each.to_account_id)
        code = _refused(payer, payee, each)
        if code == SHORT and payer is not None and payer.account_id not in short:
            short[payer.account_id] = _short(payer, each, at)
        until = each.retry_until
        if code == SHORT and until is not None and at < until:
            heappush(queue, (min(at + RETRY, until), order, number, each))
            continue
        completed += code is None
        if code is not None:
            failing.append(_failing(each, at, code, payer))
        _settle(at, each, payer, payee if code is None else None, watch)
    return Projection(failing, short, completed)


def _settle(
    at: datetime,
    each: ExpectedPayment,
    payer: ProjectedAccount | None,
    payee: ProjectedAccount | None,
    watch: BalanceWatch,
) -> None:
    """Let go what is held, and move the money if there is a payee."""
    if payer is None or (payee is None and not each.hold):
        return
    paid, released = each.amount if payee else 0, each.amount if each.hold else 0
    payer.balance -= paid
    payer.held -= released
    watch.draw(at, payer, -paid, -released)
    if payee is not None:
        payee.balance += paid
        watch.draw(at, payee, paid, 0)


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
