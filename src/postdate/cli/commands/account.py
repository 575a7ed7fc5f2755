"""`postdate account`: the operations on accounts, and a repair, which loads more when it runs."""

from postdate.cli.noun import noun_app
from postdate.cli.operation_command import Sugar

account_app = noun_app("account", {"create_account": Sugar(positional=frozenset({"account_id"}))})
account_app.command("postdate.cli.commands.account_repair:account_repair", name="repair")
