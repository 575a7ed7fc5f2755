"""`postdate destination`: where jobs and events go."""

import cyclopts
from msgspec import UNSET

from postdate.cli.choice import DecimalOrNone, WholeOrNone
from postdate.cli.noun import Noun
from postdate.cli.output import show
from postdate.cli.remote import (
    DestinationName,
    call,
    changed,
    item_path,
    limit_of,
    parse,
    without_none,
)

destination_app = cyclopts.App(
    name="destination", help="Create, change, test, disable and delete destinations."
)
destinations = Noun(destination_app, "/destinations", "name", DestinationName)
destinations.list_all("List the destinations.")
destinations.get("Show a destination.")
destinations.delete("Delete a destination that no open job needs.")
destinations.act("test", "Send a test call and show the answer.")
destinations.act(
    "disable", "Disable a destination: its jobs fail until it is enabled.", reason="reason"
)
destinations.act("enable", "Enable a destination.")


@destination_app.command(name="create")
def destination_create(body: str) -> None:
    """Create a destination from the JSON of `POST /destinations`; its secret is shown only now."""
    show(call("POST", "/destinations", parse(body)))


@destination_app.command(name="change")
def destination_change(
    name: DestinationName,
    *,
    url: str | None = None,
    max_running: WholeOrNone = None,
    rate_per_second: DecimalOrNone = None,
) -> None:
    """Change the address or limits of a destination; omitted options stay as they are."""
    body = changed(
        url=UNSET if url is None else url,
        max_running=limit_of(max_running),
        rate_per_second=limit_of(rate_per_second),
    )
    show(call("PATCH", item_path("/destinations", name), body))


@destination_app.command(name="rotate-secret")
def destination_rotate(name: DestinationName, *, overlap_seconds: float | None = None) -> None:
    """Rotate a webhook's secret; it is shown only now, and both sign until the overlap ends."""
    body = without_none(overlap_seconds=overlap_seconds)
    show(call("POST", item_path("/destinations", name, "rotate-secret"), body))
