"""Lanes: list, show, change, pause, resume."""

from typing import Final

from postdate.lane.change import Lanes
from postdate.lane.view import LaneViews
from postdate.resource.endpoints import ServedClass, serve

ROUTES: Final = serve(
    "lanes",
    ServedClass(LaneViews, lambda services: services.lane.read),
    ServedClass(Lanes, lambda services: services.lane.change),
)
