"""The buckets with something due, in fair order."""

from collections import deque
from collections.abc import Container, Iterator

from postdate.runtime.capacity import Capacity
from postdate.store.timer.lane import Lane
from postdate.worker.fair_order import FairOrder
from postdate.worker.lane_bucket import INSTANT_SECONDS, LaneBucket


class ReadyQueue:
    """Tenants take turns, then their lanes by weight, then a lane's buckets one after another."""

    def __init__(self, capacity: Capacity) -> None:
        self._capacity = capacity
        self._lane_buckets: dict[int, dict[int, deque[LaneBucket]]] = {}
        self._closed_until: dict[int, float] = {}
        self._tenants: FairOrder[int] = FairOrder()
        self._lanes: FairOrder[int] = FairOrder()

    def __bool__(self) -> bool:
        return bool(self._lane_buckets)

    def add(self, lane_bucket: LaneBucket) -> None:
        """Queue a bucket."""
        lane_bucket.ready, lane_bucket.busy = True, False
        lanes = self._lane_buckets.setdefault(lane_bucket.lane.tenant_id, {})
        lanes.setdefault(lane_bucket.lane.lane_id, deque()).append(lane_bucket)

    def close(self, lane: Lane, until: float) -> None:
        """Skip a lane for a while, because its limit is reached."""
        self._closed_until[lane.lane_id] = until

    def open(self, lane_id: int) -> None:
        """Stop skipping a lane."""
        self._closed_until.pop(lane_id, None)

    def take_next(self, now: float) -> LaneBucket | None:
        """Take the next bucket; None if nothing may start."""
        while tenants := dict(self._open(now)):
            tenant_id = self._tenants.choose(tenants)
            lane_bucket = self._take(tenant_id, self._lanes.choose(tenants[tenant_id]))
            if lane_bucket.ready:  # else its lane was paused meanwhile
                lane_bucket.ready, lane_bucket.busy = False, True
                return lane_bucket
        return None

    def opens_at(self, now: float) -> float | None:
        """Return when a bucket can be taken; None if none will have room."""
        times = (
            self._closed_until.get(lane_id, now)
            for tenant_id, lanes in self._lane_buckets.items()
            if self._capacity.free(tenant_id) > 0
            for lane_id in lanes
        )
        return min(times, default=None)

    def spend(self, lane: Lane, count: int) -> None:
        """Record how much a lane has used; an empty claim counts a little too."""
        self._tenants.spend(lane.tenant_id, max(1, count))
        self._lanes.spend(lane.lane_id, max(1, count) / lane.weight)

    def forget_others(self, lanes: Container[int], tenants: Container[int], now: float) -> None:
        """Forget the lanes and tenants that have nothing to do any more."""
        self._lanes.forget_others(lanes.__contains__)
        self._tenants.forget_others(tenants.__contains__)
        self._closed_until = {k: at for k, at in self._closed_until.items() if at > now}

    def _open(self, now: float) -> Iterator[tuple[int, list[int]]]:
        for tenant_id, lanes in self._lane_buckets.items():
            if self._capacity.free(tenant_id) > 0:
                until = now + INSTANT_SECONDS
                found = [each for each in lanes if self._closed_until.get(each, now) <= until]
                if found:
                    yield tenant_id, found

    def _take(self, tenant_id: int, lane_id: int) -> LaneBucket:
        lanes = self._lane_buckets[tenant_id]
        lane_bucket = lanes[lane_id].popleft()
        if not lanes[lane_id]:
            del lanes[lane_id]
        if not lanes:
            del self._lane_buckets[tenant_id]
        return lane_bucket
