"""A lane's bucket, and what this node remembers of it between two looks."""

import heapq
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from postdate.runtime.loop import POLL_SECONDS, next_tick
from postdate.runtime.low_water import LowWaterMark
from postdate.runtime.share import AFAR_SECONDS, OTHERS_SECONDS
from postdate.store.timer.lane import Lane
from postdate.store.timer.timer import Head

PROBES_PER_SECOND: Final = 4000
"""The most buckets looked at in a second; with more idle ones than that, each waits longer."""

ACTIVE_SECONDS: Final = 60.0
"""How long a bucket counts as one with recent work."""

YIELD_SECONDS: Final = 1.0
"""How late a timer must be where others come first: they help out long before."""

YIELDING_SECONDS: Final = 60.0
"""How long others come first at a bucket after this node could not do what it took there."""

INSTANT_SECONDS: Final = 0.001
"""Instants as near as this are one: a sleep until a tick may end a rounding before it."""

VAIN_SECONDS: Final = 0.01
MAX_VAIN_SECONDS: Final = 0.32
"""The first and the longest rest after claims in vain: whoever holds a timer may hold it long."""

NEVER: Final = float("inf")


@dataclass(slots=True, eq=False)
class LaneBucket:
    """One (bucket, lane). Times without a date are this node's monotonic clock."""

    lane: Lane
    bucket: int
    mark: LowWaterMark = field(default_factory=LowWaterMark)
    look_at: float = 0.0
    active_until: float = 0.0
    ready: bool = False
    busy: bool = False
    # Consecutive claims that found nothing although something was due: another node has locked it.
    vain: int = 0
    # Until when other nodes go first: they may have what this node lacks for a job there.
    yields_until: float = 0.0

    def late_seconds(
        self, mine: frozenset[int], now: float, left_alone: frozenset[int] = frozenset()
    ) -> float:
        """Return how late a timer must be before this node takes it."""
        if self.yields_until > now:
            return YIELD_SECONDS
        if self.bucket in mine:
            return 0.0
        return AFAR_SECONDS if self.bucket in left_alone else OTHERS_SECONDS

    def rest_seconds(self) -> float:
        """Return how long to leave a bucket alone that others have locked, longer each time.

        The first empty claim says little: a look shows whether anything is still due.
        """
        return min(VAIN_SECONDS * 2 ** (self.vain - 2), MAX_VAIN_SECONDS) if self.vain > 1 else 0.0


class LaneBuckets:
    """Every bucket of the lanes that may run, ordered by when to look at it next."""

    def __init__(self) -> None:
        self._lane_buckets: dict[tuple[int, int], LaneBucket] = {}
        self._lanes: dict[int, Lane] = {}
        self._agenda: list[tuple[float, int, LaneBucket]] = []
        self._order = itertools.count()

    def __len__(self) -> int:
        return len(self._lane_buckets)

    def __iter__(self) -> Iterator[LaneBucket]:
        return iter(self._lane_buckets.values())

    def replace(self, lanes: Iterable[Lane], now: float) -> None:
        """Replace the known lanes; a paused lane has no buckets."""
        self._lanes = {lane.lane_id: lane for lane in lanes}
        wanted = {(b, lane.lane_id): lane for lane in self._lanes.values() for b in lane.buckets}
        for key in self._lane_buckets.keys() - wanted.keys():
            self._lane_buckets.pop(key).ready = False
        for key, lane in wanted.items():
            if (lane_bucket := self._lane_buckets.get(key)) is not None:
                lane_bucket.lane = lane
            else:
                self._lane_buckets[key] = lane_bucket = LaneBucket(
                    lane, key[0], active_until=now + ACTIVE_SECONDS
                )
                self.plan(lane_bucket, now)

    def forget(self, bucket: int, lane_id: int, now: float) -> None:
        """Reset a bucket; a claim that is using the old one continues with it."""
        if (lane_bucket := self._lane_buckets.get((bucket, lane_id))) is not None:
            lane_bucket.ready = False
            fresh = LaneBucket(lane_bucket.lane, bucket, active_until=now + ACTIVE_SECONDS)
            self._lane_buckets[bucket, lane_id] = fresh
            self.plan(fresh, now)

    def has_lane(self, lane_id: int) -> bool:
        """Return whether a lane has buckets here."""
        return lane_id in self._lanes

    def plan(self, lane_bucket: LaneBucket, at: float) -> None:
        """Plan a look at a bucket at this instant, unless one is planned earlier."""
        lane_bucket.look_at, lane_bucket.busy = at, False
        heapq.heappush(self._agenda, (at, next(self._order), lane_bucket))

    def hint(self, lane_id: int | None, now: float) -> None:
        """Plan a look at a lane soon, or at all lanes: there may be new jobs."""
        if lane_id is None:
            hinted = list(self._lane_buckets.values())
        else:
            lane = self._lanes.get(lane_id)
            hinted = (
                [self._lane_buckets[bucket, lane_id] for bucket in lane.buckets] if lane else []
            )
        for lane_bucket in hinted:
            lane_bucket.active_until = now + ACTIVE_SECONDS
            if not (lane_bucket.ready or lane_bucket.busy):
                self.plan(lane_bucket, now)

    def due(self, now: float, max_count: int) -> list[LaneBucket]:
        """Take the buckets to look at now, the earliest planned first."""
        found: list[LaneBucket] = []
        while (
            self._agenda and self._agenda[0][0] <= now + INSTANT_SECONDS and len(found) < max_count
        ):
            at, _, lane_bucket = heapq.heappop(self._agenda)
            # A bucket planned again since, or gone, or being claimed, is skipped.
            current = lane_bucket.look_at == at and self.is_current(lane_bucket)
            if current and not (lane_bucket.ready or lane_bucket.busy):
                lane_bucket.look_at = NEVER
                found.append(lane_bucket)
        return found

    def next_look(self) -> float | None:
        """Return when the next look is planned."""
        while self._agenda and self._agenda[0][2].look_at != self._agenda[0][0]:
            heapq.heappop(self._agenda)
        return self._agenda[0][0] if self._agenda else None

    def learn(
        self,
        looked: Iterable[LaneBucket],
        heads: Iterable[Head],
        now: tuple[float, datetime],
        mine: frozenset[int],
        left_alone: frozenset[int] = frozenset(),
    ) -> list[LaneBucket]:
        """Return the buckets with something due; plan when to look at the others again.

        `now` is the monotonic clock and the time of the database, as this node knows it. Others
        get more time to do what is due in the buckets that are `left_alone`.
        """
        found = {(head.bucket, head.lane_id): head for head in heads}
        ready = []
        for lane_bucket in looked:
            head = found.get((lane_bucket.bucket, lane_bucket.lane.lane_id))
            lane_bucket.mark.learn_empty_below(head.due_at if head else now[1], now[1])
            pause = self._next_look(lane_bucket, now[0]) - now[0]
            if head is not None:
                late = lane_bucket.late_seconds(mine, now[0], left_alone)
                pause = min(pause, head.seconds + late)
            if pause <= 0:
                ready.append(lane_bucket)
            else:
                self.plan(lane_bucket, now[0] + pause)
        return ready

    def _next_look(self, lane_bucket: LaneBucket, now: float) -> float:
        """Return when to look at a bucket without a hint: on the next tick, or when it is due."""
        turn_seconds = len(self._lane_buckets) / PROBES_PER_SECOND
        if lane_bucket.active_until > now or turn_seconds <= POLL_SECONDS:
            return next_tick(now)
        return now + turn_seconds

    def is_current(self, lane_bucket: LaneBucket) -> bool:
        """Return whether a bucket still counts: its lane is neither gone nor paused."""
        return self._lane_buckets.get((lane_bucket.bucket, lane_bucket.lane.lane_id)) is lane_bucket
