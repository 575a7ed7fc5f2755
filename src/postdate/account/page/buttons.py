"""The buttons of an account: create, edit, freeze, unfreeze, close, adjust."""

from typing import Final

from postdate.console.button import Button
from postdate.console.money_form import of_account, of_new_account

BUTTONS: Final = (
    Button(
        "create_account",
        means="It starts at zero; adjustments and payments add money.",
        currency=of_new_account,
        confirm="Create account",
        done="Account {account_id} was created.",
        then="/accounts/{account_id}",
    ),
    Button(
        "change_account",
        currency=of_account("account_id"),
        means="A new floor or limit applies to payments that are scheduled from now on.",
        confirm="Save",
        stored="get_account",
        done="Account {account_id} was changed.",
    ),
    Button(
        "freeze_account",
        means="New payments from and to it are refused. Scheduled payments are unaffected.",
        done="{account_id} is frozen.",
    ),
    Button(
        "unfreeze_account",
        means="Payments from and to it are accepted again.",
        done="{account_id} is open again.",
    ),
    Button(
        "close_account",
        means="It must be empty and without holds. It cannot be reopened; its history is kept.",
        confirm="Close permanently",
        danger=True,
        done="{account_id} is closed.",
    ),
    Button(
        "adjust_account",
        currency=of_account("account_id"),
        means="Credits the account from the issuer, or debits it if the amount is negative. The "
        "statement shows the reason.",
        done="{account_id} was adjusted by {amount}: {reason}",
    ),
)
