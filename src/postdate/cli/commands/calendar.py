"""`postdate calendar`: business calendars, which schedules use to roll dates."""

from typing import Annotated

import cyclopts
from cyclopts import Parameter

from postdate.cli.noun import Noun
from postdate.cli.output import show
from postdate.cli.remote import call, without_none

calendar_app = cyclopts.App(name="calendar", help="Put, show and delete business calendars.")
calendars = Noun(calendar_app, "/calendars", "name")
calendars.list_all("List the calendars.")
calendars.get("Show a calendar.")
calendars.delete("Delete a calendar that no schedule uses.")

Holidays = Annotated[list[str], Parameter(name="--holiday", help="A day; may be repeated.")]
Weekend = Annotated[
    list[int] | None,
    Parameter(name="--weekend", help="A closed day of the week, 1 is Monday; may be repeated."),
]


@calendar_app.command(name="put")
def calendar_put(name: str, *, holidays: Holidays, weekend: Weekend = None) -> None:
    """Create a calendar, or replace its days."""
    body = without_none(name=name, holidays=holidays, weekend=weekend)
    show(call("POST", "/calendars", body))
