"""`postdate subscription`: where events go."""

from typing import Annotated

import cyclopts
from cyclopts import Parameter

from postdate.cli.noun import Noun
from postdate.cli.output import show
from postdate.cli.remote import call, item_path, parse

subscription_app = cyclopts.App(
    name="subscription", help="List, pause, resume and replay subscriptions."
)
subscriptions = Noun(subscription_app, "/subscriptions", "subscription_id")
subscriptions.list_all("List the subscriptions with their lag and errors.")
subscriptions.get("Show a subscription.")
subscriptions.change("pause", "Pause a subscription; its events wait.", {"paused": True}, "note")
subscriptions.change("resume", "Resume a subscription where it stopped.", {"paused": False}, None)
subscriptions.delete("Delete a subscription.")


@subscription_app.command(name="create")
def subscription_create(body: str) -> None:
    """Create a subscription from the JSON of `POST /subscriptions`."""
    show(call("POST", "/subscriptions", parse(body)))


@subscription_app.command(name="replay")
def subscription_replay(
    subscription_id: str,
    start: Annotated[str, Parameter(help="beginning, now, or the cursor of a page of events.")],
) -> None:
    """Continue from another position."""
    show(call("POST", item_path("/subscriptions", subscription_id, "replay"), {"from": start}))
