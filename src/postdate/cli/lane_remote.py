"""`postdate lane`: list, show, pause and resume lanes."""

import cyclopts

from postdate.cli.output import Json, show
from postdate.cli.remote import Lane, Limit, Reason, call, given, listed, one

lane_app = cyclopts.App(name="lane", help="List, show, pause and resume lanes.")


@lane_app.command(name="list")
def lane_list(*, limit: Limit = 20, json: Json = False) -> None:
    """List the lanes and what waits in them."""
    listed("/lanes", "lanes", json=json, limit=limit)


@lane_app.command(name="get")
def lane_get(lane: Lane, *, json: Json = False) -> None:
    """Show a lane."""
    show(call("GET", one("/lanes", lane)), as_json=json)


@lane_app.command(name="pause")
def lane_pause(lane: Lane, *, reason: Reason = None, json: Json = False) -> None:
    """Let nothing of a lane start; what runs goes on."""
    show(call("POST", one("/lanes", lane, "pause"), given(note=reason)), as_json=json)


@lane_app.command(name="resume")
def lane_resume(lane: Lane, *, json: Json = False) -> None:
    """Let a lane go on."""
    show(call("POST", one("/lanes", lane, "resume")), as_json=json)
