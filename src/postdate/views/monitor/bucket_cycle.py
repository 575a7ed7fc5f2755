"""Every place that may owe something (a bucket of a lane), looked at in turn."""

from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

from postdate.model.ids import BUCKETS
from postdate.model.lane import buckets
from postdate.store.timer.lane import LaneDirectory
from postdate.store.timer.timer import LANE_EVENT, LANE_PAYMENT, LANE_SCHEDULE

PLACES_MOST: Final = 2000
"""The most places of one look; with more lanes, each look takes the next."""

SYSTEM_KINDS: Final[Mapping[int, str]] = {
    LANE_PAYMENT: "payment",
    LANE_SCHEDULE: "schedule",
    LANE_EVENT: "delivery",
}
Place = tuple[int, int]
T = TypeVar("T")


class PlacesInTurn:
    """The places of all lanes that are not paused, and whose turn it is."""

    def __init__(self, lanes: LaneDirectory) -> None:
        self._lanes = lanes
        self._next = 0

    def kinds(self) -> dict[Place, str]:
        """Give every place with its kind; what is paused owes nothing."""
        found = {
            (bucket, lane_id): kind
            for lane_id, kind in SYSTEM_KINDS.items()
            for bucket in range(BUCKETS)
        }
        for lane in self._lanes.by_id.values():
            if not lane.paused:
                for bucket in buckets(lane.lane_id, lane.width):
                    found[bucket, lane.lane_id] = lane.kind
        return found

    def turn(self, places: Sequence[Place]) -> Sequence[Place]:
        """Take the next places of so many."""
        taken, self._next = in_turn(places, self._next)
        return taken


def in_turn(places: Sequence[T], at: int) -> tuple[Sequence[T], int]:
    """Take the next places of so many, and say where the next look begins."""
    if len(places) <= PLACES_MOST:
        return places, at
    first = at % len(places)
    beyond = max(0, first + PLACES_MOST - len(places))
    return [*places[first : first + PLACES_MOST], *places[:beyond]], at + PLACES_MOST
