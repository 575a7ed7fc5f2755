"""`postdate lane`: list, show, change, pause and resume lanes."""

from typing import Annotated

import cyclopts
from cyclopts import Parameter

from postdate.cli.choice import DecimalOrNone, WholeOrNone
from postdate.cli.noun import Noun
from postdate.cli.output import show
from postdate.cli.remote import Lane, call, changed, item_path, limit_of

lane_app = cyclopts.App(name="lane", help="List, show, change, pause and resume lanes.")
lanes = Noun(lane_app, "/lanes", "lane", Lane)
lanes.list_all("List the lanes.")
lanes.get("Show a lane.")
lanes.act("pause", "Pause a lane: running jobs continue, no other job starts.", reason="note")
lanes.act("resume", "Resume a paused lane.")


@lane_app.command(name="change")
def lane_change(
    lane: Lane,
    *,
    weight: Annotated[int | None, Parameter(help="Its share relative to others.")] = None,
    width: Annotated[int | None, Parameter(help="Number of buckets; can only grow.")] = None,
    max_running: WholeOrNone = None,
    rate_per_second: DecimalOrNone = None,
) -> None:
    """Change the weight and limits of a lane; omitted options stay as they are."""
    body = changed(
        weight=limit_of(weight),
        width=limit_of(width),
        max_running=limit_of(max_running),
        rate_per_second=limit_of(rate_per_second),
    )
    show(call("PATCH", item_path("/lanes", lane), body))
