"""Decide the outcomes of due payments: a pure function, one payment after the other."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, TypeAlias
from uuid import UUID

import msgspec

from postdate.account.store.account import Account, AccountKey, BalanceChange
from postdate.core.money import MAX_BALANCE, money_text
from postdate.ledger.hold import AccountContradictionError, release
from postdate.payment.store.settlement import SettlementOrder


class FailureReason(StrEnum):
    """Why a payment could not be settled: stable codes, as in `outcome.code`."""

    INSUFFICIENT_FUNDS = "insufficient_funds"
    ACCOUNT_FROZEN = "account_frozen"
    ACCOUNT_CLOSED = "account_closed"
    BALANCE_ABOVE_LIMIT = "balance_above_limit"


MEANINGS: Final[Mapping[FailureReason, str]] = {
    FailureReason.INSUFFICIENT_FUNDS: "The payer had too little that was available.",
    FailureReason.ACCOUNT_FROZEN: "The payer's or the payee's account was frozen.",
    FailureReason.ACCOUNT_CLOSED: "The payer's or the payee's account was closed.",
    FailureReason.BALANCE_ABOVE_LIMIT: "The payee's balance would exceed what an account can hold.",
}
"""What each code says to people, in the reference."""


class DuePayment(msgspec.Struct, frozen=True, gc=False):
    """A due payment whose timer is locked."""

    due_at: datetime
    payment_id: UUID
    payer: AccountKey
    payee: AccountKey
    amount: int
    hold: bool
    retry_until: datetime | None
    token: int
    traceparent: str | None = None

    @property
    def order(self) -> SettlementOrder:
        """Return the position in the order of settlement."""
        return (self.due_at, self.payment_id)

    @property
    def accounts(self) -> tuple[AccountKey, AccountKey]:
        """Return both accounts."""
        return (self.payer, self.payee)


class TransferCompleted(msgspec.Struct, frozen=True, gc=False):
    """The money moved: balances and versions of both accounts after it."""

    from_balance: int
    from_version: int
    to_balance: int
    to_version: int


class TransferFailed(msgspec.Struct, frozen=True, gc=False):
    """The money did not move and will not; a hold has been released."""

    reason: FailureReason
    error: str


class RetryLater(msgspec.Struct, frozen=True, gc=False):
    """The payer does not have enough yet, and the payment asked to retry."""

    at: datetime
    reason: FailureReason
    error: str


class Waits(msgspec.Struct, frozen=True, gc=False):
    """An earlier payment of its accounts is still open; this one must not overtake it."""


class Paid(msgspec.Struct, frozen=True, gc=False):
    """The money moved: the database knows the balances and versions after it."""


Decision: TypeAlias = TransferCompleted | TransferFailed | RetryLater | Waits
SettlementResult: TypeAlias = Decision | Paid
AccountsByKey: TypeAlias = Mapping[AccountKey, Account]


def decide(
    accounts: AccountsByKey,
    dues: Iterable[DuePayment],
    at: datetime,
    pause: Callable[[int], timedelta],
    earlier: Mapping[AccountKey, SettlementOrder] | None = None,
) -> list[Decision]:
    """Decide payments given in order, changing the accounts: a credit is spendable by the next.

    `at` is the database's time, `pause` the wait after some executions. `earlier` has the first
    open payment outside of this batch that touches an account: a payment that reserved its amount
    may overtake it without taking money from it; a payment without a reservation waits its turn,
    and so do the payments behind it at the same accounts.
    """
    decisions: list[Decision] = []
    open_orders = dict(earlier or {})
    for due in dues:
        if not due.hold and _overtakes(due, open_orders):
            open_orders.setdefault(due.payer, due.order)
            open_orders.setdefault(due.payee, due.order)
            decisions.append(Waits())
            continue
        payer, payee = _existing(accounts, due.payer), _existing(accounts, due.payee)
        refused = _refused(payer, payee, due)
        if refused is None:
            decisions.append(_transfer(payer, payee, due))
            continue
        if due.hold:
            release(payer, due.amount)
        decisions.append(_later(due, refused, at, pause))
    return decisions


def _existing(accounts: Mapping[AccountKey, Account], key: AccountKey) -> Account:
    found = accounts.get(key)
    if found is None:
        raise AccountContradictionError(f"there is no account {key.account_id}")
    return found


def _overtakes(due: DuePayment, open_orders: Mapping[AccountKey, SettlementOrder]) -> bool:
    first = [open_orders[key] for key in (due.payer, due.payee) if key in open_orders]
    return any(order < due.order for order in first)


def changes(dues: Iterable[DuePayment]) -> dict[AccountKey, BalanceChange]:
    """Sum up the balance changes if every payment completes."""
    sums: dict[AccountKey, list[int]] = defaultdict(lambda: [0, 0, 0])
    for due in dues:
        payer, payee = sums[due.payer], sums[due.payee]
        payer[0] -= due.amount
        payer[1] -= due.amount if due.hold else 0
        payer[2] += 1
        payee[0] += due.amount
        payee[2] += 1
    return {key: BalanceChange(*added) for key, added in sums.items()}


def _later(
    due: DuePayment, refused: TransferFailed, at: datetime, pause: Callable[[int], timedelta]
) -> TransferFailed | RetryLater:
    until = due.retry_until
    if refused.reason is not FailureReason.INSUFFICIENT_FUNDS or until is None or at >= until:
        return refused
    # The last try is at the end of the wait itself, so that money arriving late still counts.
    return RetryLater(min(at + pause(due.token), until), refused.reason, refused.error)


def _refused(payer: Account, payee: Account, due: DuePayment) -> TransferFailed | None:
    for account in (payer, payee):
        if account.closed_at is not None:
            return TransferFailed(
                FailureReason.ACCOUNT_CLOSED, f"Account {account.account_id} is closed."
            )
        if account.frozen_at is not None:
            return TransferFailed(
                FailureReason.ACCOUNT_FROZEN, f"Account {account.account_id} is frozen."
            )
    if payee.balance + due.amount > MAX_BALANCE:
        return TransferFailed(
            FailureReason.BALANCE_ABOVE_LIMIT, f"Account {payee.account_id} cannot hold that much."
        )
    if due.hold or payer.floor is None or payer.available - due.amount >= payer.floor:
        return None
    has, keeps = (money_text(each, payer.currency) for each in (payer.available, payer.floor))
    return TransferFailed(
        FailureReason.INSUFFICIENT_FUNDS,
        f"Account {payer.account_id} has {has} available and must keep {keeps}.",
    )


def _transfer(payer: Account, payee: Account, due: DuePayment) -> TransferCompleted:
    amount = due.amount
    payer.balance -= amount
    payer.version += 1
    if due.hold:
        release(payer, amount)
    payee.balance += amount
    payee.version += 1
    return TransferCompleted(payer.balance, payer.version, payee.balance, payee.version)
