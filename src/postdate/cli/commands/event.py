"""`postdate events`: follow what happens; to verify it, another module is loaded."""

from typing import Final

from postdate.cli.noun import find, noun_app
from postdate.cli.operation_command import CommandCall, GivenOptions, OperationCommand, Sugar
from postdate.cli.output import show_line
from postdate.cli.sugar import extra

WAIT_SECONDS: Final = 20
PAGE: Final = 100
SHOWN: Final = ("time", "type", "subject", "actor")
"""What a person reads of each event; a program gets all of it."""


def _tail(call: CommandCall, given: GivenOptions) -> None:
    left: int | None = given.get("count")
    after = call.fields.get("after", "now")
    while left is None or left > 0:
        limit = PAGE if left is None else min(PAGE, left)
        page = call.send(after=after, limit=limit, wait_seconds=WAIT_SECONDS)
        for event in page["events"]:
            show_line(event, SHOWN)
        after = page["next_cursor"]
        left = None if left is None else left - len(page["events"])


events_app = noun_app("events")
OperationCommand(
    find("events", "list_events"),
    Sugar(
        adds=(extra("count", int | None, "Stop after this many events."),),
        hides=frozenset({"limit", "wait_seconds"}),
        act=_tail,
        help="Print events as they come, from now on or after a cursor; in a pipe as JSON lines.",
    ),
).add_to(events_app, "tail")
events_app.command("postdate.cli.commands.event_verify:verify_events", name="verify")
