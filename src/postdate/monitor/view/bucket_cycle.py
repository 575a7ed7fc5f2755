"""The buckets of all lanes with timers, scanned one share at a time."""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeVar

from postdate.core.ids import BUCKETS
from postdate.database.connection.query import Reader
from postdate.lane.store.lane import Lane, LaneDirectory
from postdate.runtime.lane_sweep import LaneSweep
from postdate.timer.timer import LANE_EVENT, LANE_PAYMENT, LANE_SCHEDULE

MAX_LANE_BUCKETS: Final = 2000
"""The most lane buckets of one scan; with more lanes, each scan takes the next share."""

MAX_STEPS: Final = 10
"""The most statements of one search for lanes that have timers."""

ANEW_SECONDS: Final = 3600.0
"""How often the lanes with timers are searched for from the beginning."""

SYSTEM_KINDS: Final[Mapping[int, str]] = {
    LANE_PAYMENT: "payment",
    LANE_SCHEDULE: "schedule",
    LANE_EVENT: "delivery",
}
LaneBucketKey = tuple[int, int]
T = TypeVar("T")


class LaneBucketCycle:
    """The lane buckets that have timers, and which share of them is scanned next."""

    def __init__(self, lanes: LaneDirectory) -> None:
        self._lanes = lanes
        self._next = 0
        self._sweep = LaneSweep()
        self._anew_at = 0.0

    async def find(self, reader: Reader) -> None:
        """Find lanes that have timers; once an hour forget all, and with them those without."""
        now = time.monotonic()
        if now >= self._anew_at:
            self._sweep, self._anew_at = LaneSweep(), now + ANEW_SECONDS
        for _ in range(MAX_STEPS):
            found = await self._sweep.step(reader)
            await self._lanes.load({head.lane_id for head in found}, reader=reader)
            for head in found:
                self._sweep.add(head.bucket, head.lane_id)
            if not found and self._sweep.at_end:
                return

    def live(self) -> Iterator[tuple[int, Lane]]:
        """Return the buckets of lanes with timers, but those of tenants in test mode."""
        for bucket, lane_id in self._sweep:
            lane = self._lanes.by_id.get(lane_id)
            if lane is not None and not lane.test:
                yield bucket, lane

    def kinds(self) -> dict[LaneBucketKey, str]:
        """Return every lane bucket with its kind; paused lanes are left out."""
        found = {
            (bucket, lane_id): kind
            for lane_id, kind in SYSTEM_KINDS.items()
            for bucket in range(BUCKETS)
        }
        own = {(bucket, lane.lane_id): lane.kind for bucket, lane in self.live() if not lane.paused}
        return {**found, **own}

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
