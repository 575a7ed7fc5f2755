"""`postdate lane`: list, show, change, pause and resume lanes."""

from typing import Annotated

import cyclopts
from cyclopts import Parameter

from postdate.cli.choice import DecimalOrNone, WholeOrNone
from postdate.cli.output import show
from postdate.cli.remote import Lane, Limit, Reason, call, changed, given, limit_of, listed, one

lane_app = cyclopts.App(name="lane", help="List, show, change, pause and resume lanes.")


@lane_app.command(name="list")
def lane_list(*, limit: Limit = 20) -> None:
    """List the lanes and what waits in them."""
    listed("/lanes", "lanes", limit=limit)


@lane_app.command(name="get")
def lane_get(lane: Lane) -> None:
    """Show a lane."""
    show(call("GET", one("/lanes", lane)))


@lane_app.command(name="change")
def lane_change(
    lane: Lane,
    *,
    weight: Annotated[int | None, Parameter(help="Its share beside others.")] = None,
    width: Annotated[int | None, Parameter(help="Buckets it uses; only grows.")] = None,
    max_running: WholeOrNone = None,
    rate_per_second: DecimalOrNone = None,
) -> None:
    """Change the share and the limits of a lane; what is not given stays."""
    body = changed(
        weight=limit_of(weight),
        width=limit_of(width),
        max_running=limit_of(max_running),
        rate_per_second=limit_of(rate_per_second),
    )
    show(call("PATCH", one("/lanes", lane), body))


@lane_app.command(name="pause")
def lane_pause(lane: Lane, *, reason: Reason = None) -> None:
    """Let nothing of a lane start; what runs goes on."""
    show(call("POST", one("/lanes", lane, "pause"), given(note=reason)))


@lane_app.command(name="resume")
def lane_resume(lane: Lane) -> None:
    """Let a lane go on."""
    show(call("POST", one("/lanes", lane, "resume")))
