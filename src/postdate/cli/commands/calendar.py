"""`postdate calendar`: business calendars, by which schedules roll their dates."""

from typing import Annotated

import cyclopts
from cyclopts import Parameter

from postdate.cli.output import show
from postdate.cli.remote import Limit, call, given, listed, one

calendar_app = cyclopts.App(name="calendar", help="Put, show and delete business calendars.")

Holidays = Annotated[list[str], Parameter(name="--holiday", help="A day; may be repeated.")]
Weekend = Annotated[
    list[int] | None,
    Parameter(name="--weekend", help="A closed day of the week, 1 is Monday; may be repeated."),
]


@calendar_app.command(name="put")
def calendar_put(name: str, *, holidays: Holidays, weekend: Weekend = None) -> None:
    """Create a calendar, or put other days in the place of its own."""
    body = given(name=name, holidays=holidays, weekend=weekend)
    show(call("POST", "/calendars", body))


@calendar_app.command(name="list")
def calendar_list(*, limit: Limit = 20) -> None:
    """List the calendars."""
    listed("/calendars", "calendars", limit=limit)


@calendar_app.command(name="get")
def calendar_get(name: str) -> None:
    """Show a calendar."""
    show(call("GET", one("/calendars", name)))


@calendar_app.command(name="delete")
def calendar_delete(name: str) -> None:
    """Delete a calendar that no schedule uses."""
    call("DELETE", one("/calendars", name))
    show({"name": name, "deleted": True})
