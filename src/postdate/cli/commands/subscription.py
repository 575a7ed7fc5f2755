"""`postdate subscription`: where events go."""

from typing import Annotated

import cyclopts
from cyclopts import Parameter

from postdate.cli.noun import Noun
from postdate.cli.output import show
from postdate.cli.remote import (
    call,
    item_path,
    parse,
)

subscription_app = cyclopts.App(
    name="subscription", help="List, pause, resume and replay subscriptions."
)
subscriptions = Noun(subscription_app, "/subscriptions", "subscription_id")
subscriptions.list_all("List the subscriptions, how far behind each is, and what is wrong.")
subscriptions.get("Show a subscription.")
subscriptions.change(
    "pause", "Deliver no event until it is resumed; none is lost.", {"paused": True}, "note"
)
subscriptions.change("resume", "Deliver on from where it stopped.", {"paused": False}, None)
subscriptions.delete("End a subscription.")


@subscription_app.command(name="create")
def subscription_create(body: str) -> None:
    """Create a subscription from the JSON that `POST /subscriptions` takes."""
    show(call("POST", "/subscriptions", parse(body)))


@subscription_app.command(name="replay")
def subscription_replay(
    subscription_id: str,
    start: Annotated[str, Parameter(help="`beginning`, `now`, or a sequence number.")],
) -> None:
    """Deliver again from some point on."""
    body = {"from": int(start) if start.isdecimal() else start}
    show(call("POST", item_path("/subscriptions", subscription_id, "replay"), body))
