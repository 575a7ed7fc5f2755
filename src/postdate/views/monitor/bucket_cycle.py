"""The buckets of all lanes, looked at one share at a time."""

from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

from postdate.model.ids import BUCKETS
from postdate.model.lane import buckets
from postdate.store.timer.lane import LaneDirectory
from postdate.store.timer.timer import LANE_EVENT, LANE_PAYMENT, LANE_SCHEDULE

MAX_LANE_BUCKETS: Final = 2000
"""The most lane buckets of one look; with more lanes, each look takes the next share."""

SYSTEM_KINDS: Final[Mapping[int, str]] = {
    LANE_PAYMENT: "payment",
    LANE_SCHEDULE: "schedule",
    LANE_EVENT: "delivery",
}
LaneBucketKey = tuple[int, int]
T = TypeVar("T")


class LaneBucketCycle:
    """The buckets of all lanes that are not paused, and which share is looked at next."""

    def __init__(self, lanes: LaneDirectory) -> None:
        self._lanes = lanes
        self._next = 0

    def kinds(self) -> dict[LaneBucketKey, str]:
        """Return every lane bucket with its kind; paused lanes are left out."""
        found = {
            (bucket, lane_id): kind
            for lane_id, kind in SYSTEM_KINDS.items()
            for bucket in range(BUCKETS)
        }
        for lane in self._lanes.list_live():
            if not lane.paused:
                for bucket in buckets(lane.lane_id, lane.width):
                    found[bucket, lane.lane_id] = lane.kind
        return found

    def next(self, lane_buckets: Sequence[LaneBucketKey]) -> Sequence[LaneBucketKey]:
        """Return the next share of these lane buckets."""
        taken, self._next = next_share(lane_buckets, self._next)
        return taken


def next_share(lane_buckets: Sequence[T], at: int) -> tuple[Sequence[T], int]:
    """Return the next share, and where the share after it begins."""
    if len(lane_buckets) <= MAX_LANE_BUCKETS:
        return lane_buckets, at
    first = at % len(lane_buckets)
    beyond = max(0, first + MAX_LANE_BUCKETS - len(lane_buckets))
    return [
        *lane_buckets[first : first + MAX_LANE_BUCKETS],
        *lane_buckets[:beyond],
    ], at + MAX_LANE_BUCKETS
