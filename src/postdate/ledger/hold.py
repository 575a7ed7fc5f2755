"""Holds: decide on accounts in memory, item by item, independent of the batch size."""

from postdate.account.store.account import Account
from postdate.core.money import ISSUER, money_text
from postdate.payment.spec.payment import AmountLimits, PaymentOrder
from postdate.words.error import Code, Refusal


def admit(
    order: PaymentOrder, payer: Account | None, payee: Account | None, limits: AmountLimits
) -> Refusal | None:
    """Refuse a payment that may not be scheduled; reserve its amount if it asks for a hold."""
    refusal = check_usable(payer, order.from_account_id, "from_account_id") or check_usable(
        payee, order.to_account_id, "to_account_id"
    )
    if refusal is not None or payer is None or payee is None:
        return refusal
    if payer.currency != payee.currency:
        return _mismatch(payer, payee)
    limit = limits.for_account(payer.max_amount)
    if order.amount > limit:
        return Refusal(
            Code.AMOUNT_ABOVE_LIMIT,
            f"The most for one payment from {payer.account_id} is "
            f"{money_text(limit, payer.currency)}.",
            "amount",
            extra={"limit": limit},
        )
    return reserve(payer, order.amount) if order.funding == "hold" else None


def _mismatch(payer: Account, payee: Account) -> Refusal:
    """Refuse a payment between two currencies: an amount would mean two different things."""
    names = [each.currency or "no currency" for each in (payer, payee)]
    return Refusal(
        Code.CURRENCY_MISMATCH,
        f"{payer.account_id} has {names[0]}, {payee.account_id} has {names[1]}.",
        "to_account_id",
        extra={"currencies": [payer.currency, payee.currency]},
    )


def check_usable(account: Account | None, account_id: str, field: str) -> Refusal | None:
    """Refuse an account that cannot take part in a payment."""
    if account_id == ISSUER:
        return Refusal(Code.ACCOUNT_RESERVED, f"{ISSUER} makes no payments.", field)
    if account is None:
        return Refusal(Code.UNKNOWN_ACCOUNT, f"There is no account {account_id}.", field)
    if account.closed_at is not None:
        return Refusal(Code.ACCOUNT_CLOSED, f"The account {account_id} is closed.", field)
    if account.frozen_at is not None:
        return Refusal(Code.ACCOUNT_FROZEN, f"The account {account_id} is frozen.", field)
    return None


class AccountContradictionError(Exception):
    """An account of a payment is missing, or holds less than the payment needs."""


def release(account: Account, amount: int) -> None:
    """Release what one payment held."""
    if account.held < amount:
        detail = f"{account.account_id} holds {account.held}, less than {amount}"
        raise AccountContradictionError(detail)
    account.held -= amount


def reserve(account: Account, amount: int) -> Refusal | None:
    """Hold an amount of what is available above the floor; the version counts entries only."""
    if account.floor is not None and account.available - amount < account.floor:
        free = account.available - account.floor
        return Refusal(
            Code.INSUFFICIENT_FUNDS,
            f"{account.account_id} has {money_text(free, account.currency)} available.",
            "amount",
            extra={"available": free},
        )
    account.held += amount
    return None
