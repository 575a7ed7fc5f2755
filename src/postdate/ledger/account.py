"""Accounts: decide changes of locked accounts."""

from uuid import UUID

from postdate.account.store.account import Account, AccountTerms
from postdate.account.store.transfer import NewTransfer
from postdate.core.money import ISSUER, MAX_BALANCE, money_text
from postdate.words.error import Code, Refusal


def adjust(
    account: Account | None, issuer: Account, account_id: str, amount: int
) -> Account | Refusal:
    """Move an amount between the issuer and an account; negative amounts go back.

    A frozen account can be adjusted, because corrections may be the reason to freeze it.
    """
    if account_id == ISSUER:
        return Refusal(Code.ACCOUNT_RESERVED, f"{ISSUER} cannot be adjusted itself.")
    if account is None:
        return Refusal(Code.NOT_FOUND, f"There is no account {account_id}.")
    if account.closed_at is not None:
        return Refusal(Code.ACCOUNT_CLOSED, f"The account {account_id} is closed.")
    balance = account.balance + amount
    if amount < 0 and account.floor is not None and balance - account.held < account.floor:
        free = account.available - account.floor
        return Refusal(
            Code.INSUFFICIENT_FUNDS,
            f"{account.account_id} has {_text(account, free)} available.",
            "amount",
            extra={"available": free},
        )
    if max(abs(balance), abs(issuer.balance - amount)) > MAX_BALANCE:
        detail = f"No balance may exceed {_text(account, MAX_BALANCE)}."
        return Refusal(Code.BALANCE_ABOVE_LIMIT, detail, "amount")
    for side, leg in ((account, amount), (issuer, -amount)):
        side.balance += leg
        side.version += 1
    return account


def adjustment(
    account: Account, issuer: Account, transfer_id: UUID, amount: int, reason: str
) -> NewTransfer:
    """Return the transfer of an adjustment, from both accounts after the change."""
    payer, payee = (issuer, account) if amount > 0 else (account, issuer)
    return NewTransfer(
        bucket=payer.bucket,
        to_bucket=payee.bucket,
        tenant_id=payer.tenant_id,
        transfer_id=transfer_id,
        amount=abs(amount),
        from_account=payer.account_id,
        from_balance=payer.balance,
        from_version=payer.version,
        to_account=payee.account_id,
        to_balance=payee.balance,
        to_version=payee.version,
        payment_id=None,
        reason=reason,
    )


def change(account: Account, before: AccountTerms, after: AccountTerms) -> Refusal | None:
    """Refuse terms that an account may not have: limits, freezing, closing."""
    if account.account_id == ISSUER:
        return Refusal(Code.ACCOUNT_RESERVED, f"The terms of {ISSUER} cannot be changed.")
    if before.closed and after != before:
        return Refusal(Code.ACCOUNT_CLOSED, f"The account {account.account_id} is closed.")
    if after.floor is not None and after.floor != before.floor and account.available < after.floor:
        return Refusal(
            Code.INSUFFICIENT_FUNDS,
            f"{account.account_id} has {_text(account, account.available)} available.",
            "floor",
            extra={"available": account.available},
        )
    if after.closed and (account.balance or account.held):
        return Refusal(
            Code.ACCOUNT_NOT_EMPTY,
            f"{account.account_id} has a balance of {_text(account, account.balance)}, of which "
            f"{_text(account, account.held)} is held.",
            extra={"balance": account.balance, "held": account.held},
        )
    return None


def _text(account: Account, amount: int) -> str:
    return money_text(amount, account.currency)
