"""Operations of lanes. Written by `make docs` from the endpoints."""

from typing import Final

from postdate.client.models.lanes import Lane, LaneList
from postdate.client.operation import Operation

LIST_LANES: Final = Operation("list_lanes", "GET", "/lanes", LaneList)
SHOW_LANE: Final = Operation("show_lane", "GET", "/lanes/{lane}", Lane)
CHANGE_LANE: Final = Operation(
    "change_lane",
    "PATCH",
    "/lanes/{lane}",
    Lane,
    nulls=frozenset({"max_running", "rate_per_second"}),
)
PAUSE_LANE: Final = Operation("pause_lane", "POST", "/lanes/{lane}/pause", Lane)
RESUME_LANE: Final = Operation("resume_lane", "POST", "/lanes/{lane}/resume", Lane)
