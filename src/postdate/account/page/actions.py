"""Actions on an account: freeze, unfreeze, close, adjust."""

from collections.abc import Awaitable, Callable
from typing import Final

from postdate.account.change.account import Accounts
from postdate.console.action import Action, Field, form_key, granted
from postdate.console.equivalent_command import EquivalentCommand
from postdate.console.page_request import PageRequest
from postdate.core.identity import Identity, Scope
from postdate.core.money import MAX_AMOUNT
from postdate.words.error import Code, refuse

Change = Callable[[Accounts, Identity, str], Awaitable[object]]


def _changing(change: Change, done: str) -> Callable[[PageRequest], Awaitable[str]]:
    async def does(request: PageRequest) -> str:
        account_id: str = request.param("account_id")
        await change(request.services.account.change, request.actor, account_id)
        return f"{account_id} is {done}."

    return does


async def _adjust(request: PageRequest) -> str:
    account_id: str = request.param("account_id")
    text, reason = request.form.get("amount", ""), request.form.get("reason", "").strip()
    try:
        amount = int(text)
    except ValueError:
        raise refuse(Code.INVALID_FIELD, "The amount must be a whole number.", "amount") from None
    if not 0 < abs(amount) <= MAX_AMOUNT:
        detail = f"The amount must be between 1 and {MAX_AMOUNT}, or is negative."
        raise refuse(Code.INVALID_FIELD, detail, "amount")
    if not reason:
        raise refuse(Code.INVALID_FIELD, "Give a reason: the statement shows it.", "reason")
    adjusting = request.services.account.adjustment
    granted(await adjusting.adjust(request.actor, account_id, amount, reason, form_key(request)))
    return f"{account_id} was adjusted by {amount:,}: {reason}"


ACTIONS: Final = (
    Action(
        path="/accounts/{account_id}/freeze",
        scope=Scope.PAYMENTS_WRITE,
        limited="filtered",
        title="Freeze account",
        button="Freeze",
        means="New payments from and to it are refused. Scheduled payments are unaffected.",
        back="/accounts/{account_id}",
        does=_changing(Accounts.freeze, "frozen"),
        same=EquivalentCommand(
            operation="freeze_account",
            method_name="accounts.freeze",
            command="account freeze {account_id}",
        ),
        danger=True,
    ),
    Action(
        path="/accounts/{account_id}/unfreeze",
        scope=Scope.PAYMENTS_WRITE,
        limited="filtered",
        title="Unfreeze account",
        button="Unfreeze",
        means="Payments from and to it are accepted again.",
        back="/accounts/{account_id}",
        does=_changing(Accounts.unfreeze, "open again"),
        same=EquivalentCommand(
            operation="unfreeze_account",
            method_name="accounts.unfreeze",
            command="account unfreeze {account_id}",
        ),
    ),
    Action(
        path="/accounts/{account_id}/close",
        scope=Scope.PAYMENTS_WRITE,
        limited="filtered",
        title="Close account",
        button="Close permanently",
        means="It must be empty and without holds. It cannot be reopened; its history is kept.",
        back="/accounts/{account_id}",
        does=_changing(Accounts.close, "closed"),
        same=EquivalentCommand(
            operation="close_account",
            method_name="accounts.close",
            command="account close {account_id}",
        ),
        danger=True,
    ),
    Action(
        path="/accounts/{account_id}/adjust",
        scope=Scope.LEDGER_ADJUST,
        limited="filtered",
        title="Adjust account",
        button="Adjust",
        means="Credits the account from the issuer, or debits it if the amount is negative.",
        back="/accounts/{account_id}",
        does=_adjust,
        same=EquivalentCommand(
            operation="adjust_account",
            method_name="accounts.adjust",
            command="account adjust {account_id} {amount} --reason {reason}",
            body=lambda typed: {"amount": typed["amount"], "reason": typed["reason"]},
        ),
        fields=(
            Field(name="amount", label="Amount", kind="number", hint="negative debits the account"),
            Field(name="reason", label="Reason", hint="shown in the statement"),
        ),
        danger=True,
    ),
)
