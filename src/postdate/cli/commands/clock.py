"""`postdate clock`: show and advance the test clock of a tenant in test mode."""

import secrets
from typing import Annotated, Any

import cyclopts
from cyclopts import Parameter

from postdate.cli.output import show
from postdate.cli.remote import Limit, call, print_page, without_none

clock_app = cyclopts.App(name="clock", help="Show and advance the clock of a tenant in test mode.")

By = Annotated[str | None, Parameter(help="A duration: 90s, 15m, 12h, 30d, 2w or 1d12h.")]
To = Annotated[str | None, Parameter(help="An instant, not before the clock's current time.")]
Number = Annotated[int | None, Parameter(help="Only entries of this advance.")]


@clock_app.command(name="show")
def clock_show() -> None:
    """Show the time of the test clock."""
    show(call("GET", "/test-clock"))


@clock_app.command(name="advance")
def clock_advance(by: By = None, *, to: To = None) -> None:
    """Advance the test clock and run what comes due; without options, continue an advance."""
    body = without_none(by=by, to=to)
    entries: list[Any] = []
    while True:
        key = secrets.token_hex(16) if body else None
        answer = call("POST", "/test-clock/advance", body, idempotency_key=key)
        entries += answer["entries"]
        if answer["finished"]:
            break
        body = {}
    show({**answer, "entries": entries})


@clock_app.command(name="entries")
def clock_entries(*, advance: Number = None, limit: Limit = 20) -> None:
    """List what happened while the test clock was advanced, in order."""
    print_page("/test-clock/entries", "entries", advance=advance, limit=limit)
