"""`postdate events list` and `tail`: what happened, in its order, through the HTTP API."""

from typing import Annotated, Any, Final

from cyclopts import Parameter

from postdate.cli.commands.event_proof import events_app
from postdate.cli.output import show_line
from postdate.cli.remote import Limit, call, listed

__all__ = ["events_app"]

WAIT_SECONDS: Final = 20
PAGE: Final = 100
SHOWN: Final = ("time", "type", "subject", "actor")
"""What a person reads of each event; a program gets all of it."""

Types = Annotated[str | None, Parameter(help="Such as payment.completed,job.*")]
Subject = Annotated[str | None, Parameter(help="Only events of this job, payment or schedule.")]
After = Annotated[str, Parameter(help="beginning, now, or the cursor of a page.")]


@events_app.command(name="list")
def events_list(
    *, types: Types = None, subject: Subject = None, after: After = "beginning", limit: Limit = 20
) -> None:
    """List events in the order of their seals."""
    query = {"types": types, "subject": subject, "after": after, "limit": limit}
    listed("/events", "events", **query)


@events_app.command(name="tail")
def events_tail(
    *,
    types: Types = None,
    subject: Subject = None,
    after: After = "now",
    count: Annotated[int | None, Parameter(help="Leave after so many.")] = None,
) -> None:
    """Print events as they come, until it is stopped; in a pipe as JSON lines."""
    left = count
    while left is None or left > 0:
        limit = PAGE if left is None else min(PAGE, left)
        query = {"types": types, "subject": subject, "after": after, "limit": limit}
        page: dict[str, Any] = call("GET", "/events", query={**query, "wait_seconds": WAIT_SECONDS})
        for event in page["events"]:
            show_line(event, SHOWN)
        after = page["next_cursor"]
        left = None if left is None else left - len(page["events"])
