"""`postdate account`: the operations on accounts, and a repair, which loads more when it runs."""

import sys
from typing import Final

from postdate.cli.ensure import ensure_command
from postdate.cli.noun import find, noun_app
from postdate.cli.operation_command import CommandCall, GivenOptions, Sugar
from postdate.cli.output import show, wants_json
from postdate.cli.remote import connected
from postdate.cli.table import money_cell

ENTRY_COLUMNS: Final = ("created_at", "amount", "balance", "counterparty", "description", "type")
SUMMARY: Final = ("opening_balance", "credits", "debits", "closing_balance")


def _write_statement(call: CommandCall, _: GivenOptions) -> None:
    """Print the entries and below them the balances and totals, or write the file as it came."""
    if call.fields.get("format", "json") == "json":
        found = call.send()
        if wants_json():
            show(found)
            return
        named = {"currency": found["currency"]} if found["currency"] else {}
        show([{**each, **named} for each in found["entries"]], ENTRY_COLUMNS)
        parts = (f"{name.replace('_', ' ')} {money_cell(found, name)}" for name in SUMMARY)
        print(", ".join(parts), file=sys.stderr)
        return
    with connected() as client:
        sys.stdout.buffer.write(client.fetch(call.operation, call.fields) or b"")
        sys.stdout.buffer.flush()


account_app = noun_app(
    "account",
    {
        "create_account": Sugar(positional=frozenset({"account_id"})),
        "get_account_statement": Sugar(act=_write_statement),
    },
)
_CREATE = find("account", "create_account")
ensure_command(_CREATE, "accounts", "account_id", Sugar()).add_to(account_app, "ensure")
account_app.command("postdate.cli.commands.account_repair:account_repair", name="repair")
