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
lanes.list_all("List the lanes and what waits in them.")
lanes.get("Show a lane.")
lanes.act("pause", "Let nothing of a lane start; what runs goes on.", reason="note")
lanes.act("resume", "Let a lane go on.")


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
    show(call("PATCH", item_path("/lanes", lane), body))
