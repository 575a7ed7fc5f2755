"""A lane's bucket, and what this node remembers of it between two looks."""

import heapq
import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from postdate.lane.spec import order_at
from postdate.lane.store.lane import Lane
from postdate.runtime.key_rotation import KeyRotation
from postdate.runtime.lane_sweep import LaneSweep
from postdate.runtime.loop import POLL_SECONDS, next_tick
from postdate.runtime.low_water import LowWaterMark
from postdate.runtime.share import AFAR_SECONDS, OTHERS_SECONDS
from postdate.timer.timer import Head

PROBES_PER_SECOND: Final = 4000
"""Maximum number of buckets read in a second; with more idle ones, each waits longer."""

ACTIVE_SECONDS: Final = 60.0
"""How long a bucket counts as one with recent work."""

KEPT_SECONDS: Final = 3600.0
"""How long an empty bucket is kept after that: its mark spares a walk over its dead rows."""

SLOW_SECONDS: Final = 0.2
SLOW_RESTS: Final = 10
MAX_REST_SECONDS: Final = 30.0
"""A sweep that took long, over dead rows for example, rests this many times as long."""

YIELD_SECONDS: Final = 1.0
"""How late a timer must be where others come first: they help out long before."""

YIELDING_SECONDS: Final = 60.0
"""How long others come first at a bucket after this node could not do what it took there."""

INSTANT_SECONDS: Final = 0.001
"""Instants as near as this are one: a sleep until a tick may end a rounding before it."""

VAIN_SECONDS: Final = 0.01
MAX_VAIN_SECONDS: Final = 0.32
"""The first and the longest rest after claims in vain: a timer may stay locked for long."""

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
    # The keys that have due jobs, where keys take rotation.
    rotation: KeyRotation | None = None

    def follow(self, lane: Lane) -> bool:
        """Take over a changed lane; return whether its keys must be found again."""
        changed = lane.key_rotation != self.lane.key_rotation
        self.lane = lane
        if changed:
            self.rotation = None
            self.mark.forget()
        return changed

    def key_rotation(self) -> KeyRotation:
        """Return what is known of the keys."""
        if self.rotation is None:
            self.rotation = KeyRotation()
        return self.rotation

    def rotation_seconds(self, now: float) -> float:
        """Return in how many seconds a key has its turn; below zero, for how long it has had it."""
        return NEVER if self.rotation is None else self.rotation.ready_at() - now

    def walk_seconds(self, now: float) -> float:
        """Return in how many seconds the search for more keys is due."""
        return -NEVER if self.rotation is None else self.rotation.walk_at() - now

    def late_seconds(
        self, mine: frozenset[int], now: float, left_alone: frozenset[int] = frozenset()
    ) -> float:
        """Return how late a timer must be before this node takes it."""
        if self.yields_until > now:
            return YIELD_SECONDS
        if self.bucket in mine:
            return 0.0
        return AFAR_SECONDS if self.bucket in left_alone else OTHERS_SECONDS

    def order_at(self) -> datetime:
        """Return by which instant its first job takes its turn among other priorities."""
        first = None if self.rotation is None else self.rotation.first_due()
        return order_at(first or self.mark.lowest, self.lane.priority)

    def rest_seconds(self) -> float:
        """Return how long to leave a bucket alone that others have locked, longer each time.

        The first empty claim says little: a read shows whether anything is still due.
        """
        return min(VAIN_SECONDS * 2 ** (self.vain - 2), MAX_VAIN_SECONDS) if self.vain > 1 else 0.0


class LaneBuckets:
    """The buckets with timers of lanes that may run, ordered by when to read each next.

    A sweep finds them, or a hint does; a lane without timers costs nothing. Lanes that may not run
    (paused, halted, for others to take) are set aside, so that the sweep does not find them again.
    """

    def __init__(self) -> None:
        self._watched: dict[int, dict[int, LaneBucket]] = {}
        self._aside: dict[int, set[int]] = {}
        self._count = 0
        self._agenda: list[tuple[float, int, LaneBucket]] = []
        self._order = itertools.count()
        self.sweep = LaneSweep()
        self.sweep_at = 0.0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[LaneBucket]:
        return (each for buckets in self._watched.values() for each in buckets.values())

    def follow(self, runnable: Callable[[int], Lane | None], now: float) -> None:
        """Take over how lanes have changed: paused, resumed, with another weight or limit."""
        for lane_id in list(self._watched):
            lane = runnable(lane_id)
            if lane is None:
                self._set_aside(lane_id)
            else:
                for lane_bucket in self._watched[lane_id].values():
                    if lane_bucket.follow(lane) and not (lane_bucket.ready or lane_bucket.busy):
                        self.plan(lane_bucket, now)
        for lane_id in list(self._aside):
            if (lane := runnable(lane_id)) is not None:
                for bucket in self._aside.pop(lane_id):
                    self.plan(self.watch(lane, bucket), now)

    def watch(self, lane: Lane, bucket: int) -> LaneBucket:
        """Return a bucket of a lane, which is read from now on."""
        buckets = self._watched.setdefault(lane.lane_id, {})
        lane_bucket = buckets.get(bucket)
        if lane_bucket is None:
            buckets[bucket] = lane_bucket = LaneBucket(lane, bucket)
            self._count += 1
            self.sweep.add(bucket, lane.lane_id)
        return lane_bucket

    def set_aside(self, bucket: int, lane_id: int) -> None:
        """Remember a bucket of a lane that may not run."""
        self.sweep.add(bucket, lane_id)
        self._aside.setdefault(lane_id, set()).add(bucket)

    def _set_aside(self, lane_id: int) -> None:
        buckets = self._watched.pop(lane_id)
        self._count -= len(buckets)
        self._aside.setdefault(lane_id, set()).update(buckets)
        for lane_bucket in buckets.values():
            lane_bucket.ready = False

    def _drop(self, lane_bucket: LaneBucket) -> None:
        """Leave an empty bucket to the sweep and to hints."""
        lane_id = lane_bucket.lane.lane_id
        buckets = self._watched[lane_id]
        del buckets[lane_bucket.bucket]
        self._count -= 1
        self.sweep.discard(lane_bucket.bucket, lane_id)
        if not buckets:
            del self._watched[lane_id]

    def forget(self, lane: Lane, bucket: int, now: float) -> None:
        """Reset a bucket; a claim that is using the old one continues with it."""
        self.watch(lane, bucket).ready = False
        fresh = LaneBucket(lane, bucket, active_until=now + ACTIVE_SECONDS)
        self._watched[lane.lane_id][bucket] = fresh
        self.plan(fresh, now)

    def followed(self) -> tuple[set[tuple[int, str]], set[int]]:
        """Return the lanes that have buckets here, by tenant and name, and their tenants."""
        lanes = [next(iter(each.values())).lane for each in self._watched.values()]
        return {(lane.tenant_id, lane.name) for lane in lanes}, {lane.tenant_id for lane in lanes}

    def plan(self, lane_bucket: LaneBucket, at: float) -> None:
        """Plan a read of a bucket at this instant, unless one is planned earlier."""
        lane_bucket.look_at, lane_bucket.busy = at, False
        heapq.heappush(self._agenda, (at, next(self._order), lane_bucket))

    def hint(self, lane: Lane, now: float) -> None:
        """Plan a read of all buckets of a lane soon: there may be new jobs."""
        for bucket in lane.buckets:
            lane_bucket = self.watch(lane, bucket)
            lane_bucket.active_until = now + ACTIVE_SECONDS
            self._hint(lane_bucket, now)

    def hint_all(self, now: float) -> None:
        """Plan a read of everything, and a sweep."""
        self.sweep.begin()
        self.sweep_at = now
        for lane_bucket in self:
            if lane_bucket.rotation is not None:
                lane_bucket.rotation.retry(now)
            self._hint(lane_bucket, now)

    def _hint(self, lane_bucket: LaneBucket, now: float) -> None:
        if not (lane_bucket.ready or lane_bucket.busy):
            self.plan(lane_bucket, now)

    def due(self, now: float, max_count: int) -> list[LaneBucket]:
        """Take the buckets to read now, the earliest planned first."""
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

    def next_look(self) -> float:
        """Return when the next read or sweep is planned."""
        while self._agenda and self._agenda[0][2].look_at != self._agenda[0][0]:
            heapq.heappop(self._agenda)
        return min(self._agenda[0][0], self.sweep_at) if self._agenda else self.sweep_at

    def plan_sweep(self, now: float, took_seconds: float) -> None:
        """Plan the next step of the sweep: at once, on the next tick, or at a bounded rate."""
        if self.sweep.found_any:
            self.sweep_at = now
        else:
            rest = self.sweep.looked / PROBES_PER_SECOND
            if self.sweep.at_end:
                rest = max(rest, next_tick(now) - now)
            if took_seconds > SLOW_SECONDS:
                rest = max(rest, min(SLOW_RESTS * took_seconds, MAX_REST_SECONDS))
            self.sweep_at = now + rest

    def learn(
        self,
        looked: Iterable[LaneBucket],
        heads: Iterable[Head],
        now: tuple[float, datetime],
        mine: frozenset[int],
        left_alone: frozenset[int] = frozenset(),
    ) -> list[LaneBucket]:
        """Return the buckets with something due; plan when to read the others again.

        `now` is the monotonic clock and the time of the database, as this node knows it. Others
        get more time to do what is due in the buckets that are `left_alone`.
        """
        found = {(head.bucket, head.lane_id): head for head in heads}
        ready = []
        for lane_bucket in looked:
            head = found.get((lane_bucket.bucket, lane_bucket.lane.lane_id))
            idle = head is None and not lane_bucket.rotation
            if idle and lane_bucket.active_until + KEPT_SECONDS < now[0]:
                if self.is_current(lane_bucket):
                    self._drop(lane_bucket)
                continue
            lane_bucket.mark.learn_empty_below(head.due_at if head else now[1], now[1])
            pause = self._next_look(lane_bucket, now[0]) - now[0]
            first = lane_bucket.rotation_seconds(now[0])
            if head is not None:
                first = min(first, max(head.seconds, lane_bucket.walk_seconds(now[0])))
            if first < pause:
                pause = min(pause, first + lane_bucket.late_seconds(mine, now[0], left_alone))
            if pause <= 0:
                ready.append(lane_bucket)
            else:
                self.plan(lane_bucket, now[0] + pause)
        return ready

    def _next_look(self, lane_bucket: LaneBucket, now: float) -> float:
        """Return when to read a bucket without a hint: on the next tick, or when it is due."""
        turn_seconds = self._count / PROBES_PER_SECOND
        if lane_bucket.active_until > now or turn_seconds <= POLL_SECONDS:
            return next_tick(now)
        return now + turn_seconds

    def is_current(self, lane_bucket: LaneBucket) -> bool:
        """Return whether a bucket still counts: its lane is neither gone nor paused."""
        watched = self._watched.get(lane_bucket.lane.lane_id, {})
        return watched.get(lane_bucket.bucket) is lane_bucket
