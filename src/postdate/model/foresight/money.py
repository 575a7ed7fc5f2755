"""Money ahead: settle what is expected in the order of settlement, on a copy of the accounts."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from heapq import heapify, heappop, heappush
from typing import Final
from uuid import UUID

import msgspec

from postdate.model.payment.money import MAX_BALANCE

RETRY: Final = timedelta(hours=1)
"""How often a payment that waits for its money is taken to try again: the longest real wait."""

LAST: Final = UUID(int=2**128 - 1)


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
    """An account right after a change."""

    at: datetime
    balance: int
    held: int
    available: int


class Projection(msgspec.Struct, frozen=True):
    """What becomes of expected payments."""

    failing: list[FailingPayment]
    points: list[BalancePoint]
    """The account that is watched, after each of its changes."""
    completed: int


def project(
    accounts: Mapping[str, ProjectedAccount],
    expected: Iterable[ExpectedPayment],
    watched: str | None = None,
) -> Projection:
    """Settle payments by due time and id, changing the accounts; a credit is spendable at once."""
    queue = [
        (each.due_at, each.payment_id or LAST, number, each) for number, each in enumerate(expected)
    ]
    heapify(queue)
    failing: list[FailingPayment] = []
    points: list[BalancePoint] = []
    completed = 0
    while queue:
        at, order, number, each = heappop(queue)
        payer, payee = accounts.get(each.from_account_id), accounts.get(each.to_account_id)
        code = _refused(payer, payee, each)
        until = each.retry_until
        if code == "insufficient_funds" and until is not None and at < until:
            heappush(queue, (min(at + RETRY, until), order, number, each))
            continue
        if payer is not None and each.hold:
            payer.held -= each.amount
        if code is None and payer is not None and payee is not None:
            payer.balance -= each.amount
            payee.balance += each.amount
            completed += 1
        elif code is not None:
            failing.append(_failing(each, at, code, payer))
        if watched in {each.from_account_id, each.to_account_id} and watched in accounts:
            points.append(_point(at, accounts[watched]))
    return Projection(failing, points, completed)


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
    return "insufficient_funds"


def _failing(
    each: ExpectedPayment, at: datetime, code: str, payer: ProjectedAccount | None
) -> FailingPayment:
    short = payer is not None and code == "insufficient_funds"
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


def _point(at: datetime, account: ProjectedAccount) -> BalancePoint:
    return BalancePoint(at, account.balance, account.held, account.available)
