"""`postdate account`: the operations on accounts, and a repair, which loads more when it runs."""

from postdate.cli.ensure import ensure_command
from postdate.cli.noun import find, noun_app
from postdate.cli.operation_command import Sugar

account_app = noun_app("account", {"create_account": Sugar(positional=frozenset({"account_id"}))})
_CREATE = find("account", "create_account")
ensure_command(_CREATE, "accounts", "account_id", Sugar()).add_to(account_app, "ensure")
account_app.command("postdate.cli.commands.account_repair:account_repair", name="repair")
