"""`postdate change-set`: preview changes, apply them together, and undo them."""

from typing import Annotated

import cyclopts
from cyclopts import Parameter

from postdate.cli.noun import Noun
from postdate.cli.output import show
from postdate.cli.remote import call, parse, without_none

change_set_app = cyclopts.App(name="change-set", help="Preview, apply and undo sets of changes.")
change_sets = Noun(change_set_app, "/change-sets", "change_set_id")
change_sets.list_all("List change sets, the newest first.", "change_sets")
change_sets.get("Show a change set and its progress.")
change_sets.list_of_one("items", "List the jobs and payments of a set, with the result of each.")
change_sets.act("apply", "Apply a set, or continue one that was interrupted.")
change_sets.act("undo", "Undo a set, unless one of its jobs or payments was executed.")


@change_set_app.command(name="create")
def change_set_create(
    changes: Annotated[str, Parameter(help="The changes as a JSON list.")],
    *,
    note: Annotated[str | None, Parameter(help="Why.")] = None,
    until_at: Annotated[str | None, Parameter(help="End of the forecast; a day from now.")] = None,
) -> None:
    """Preview changes and store them as a draft; nothing is changed."""
    body = without_none(changes=parse(changes), note=note, until_at=until_at)
    show(call("POST", "/change-sets", body))
