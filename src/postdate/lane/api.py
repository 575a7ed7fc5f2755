"""Lanes: list, show, change, pause, resume."""

from typing import Final

from postdate.lane.change import Lanes
from postdate.lane.view import LaneViews
from postdate.resource.endpoints import Served, serve

ROUTES: Final = serve(
    "lanes",
    Served(LaneViews, lambda services: services.lane.read),
    Served(Lanes, lambda services: services.lane.change),
)
