"""`postdate change-set`: see what changes would do, make them together, and undo them."""

from typing import Annotated

import cyclopts
from cyclopts import Parameter

from postdate.cli.noun import Noun
from postdate.cli.output import show
from postdate.cli.remote import call, parse, without_none

change_set_app = cyclopts.App(name="change-set", help="Try changes out, make and undo them.")
change_sets = Noun(change_set_app, "/change-sets", "change_set_id")
change_sets.list_all("List change sets, the newest first.", "change_sets")
change_sets.get("Show a change set, and how far it has come.")
change_sets.list_of_one("items", "List the jobs and payments of a set, and what became of each.")
change_sets.act("apply", "Make the changes of a set; go on where it was broken off.")
change_sets.act("undo", "Undo the changes of a set, unless something of it was executed.")


@change_set_app.command(name="create")
def change_set_create(
    changes: Annotated[str, Parameter(help="The changes as a JSON list.")],
    *,
    note: Annotated[str | None, Parameter(help="Why.")] = None,
    until_at: Annotated[str | None, Parameter(help="How far to look ahead; a day.")] = None,
) -> None:
    """Show what changes would do, and keep them as a draft; nothing is changed."""
    body = without_none(changes=parse(changes), note=note, until_at=until_at)
    show(call("POST", "/change-sets", body))
