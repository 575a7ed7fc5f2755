"""The buckets with something due, in fair order."""

from collections import deque
from collections.abc import Callable, Container, Iterator

from postdate.lane.store.lane import Lane
from postdate.runtime.capacity import Capacity
from postdate.worker.fair_order import FairOrder
from postdate.worker.lane_bucket import LaneBucket


class ReadyQueue:
    """Tenants take turns, then their lanes by weight, then a lane's buckets one after another.

    Where buckets of a lane differ in priority, the one whose first job has its turn first is next.
    """

    def __init__(self, capacity: Capacity, max_claim: Callable[[Lane], int]) -> None:
        self._capacity = capacity
        self._max_claim = max_claim
        self._lane_buckets: dict[int, dict[str, deque[LaneBucket]]] = {}
        self._tenants: FairOrder[int] = FairOrder()
        self._lanes: FairOrder[tuple[int, str]] = FairOrder()

    def __bool__(self) -> bool:
        return bool(self._lane_buckets)

    def add(self, lane_bucket: LaneBucket) -> None:
        """Queue a bucket."""
        lane_bucket.ready, lane_bucket.busy = True, False
        lanes = self._lane_buckets.setdefault(lane_bucket.lane.tenant_id, {})
        lanes.setdefault(lane_bucket.lane.name, deque()).append(lane_bucket)

    def take_next(self) -> LaneBucket | None:
        """Take the next bucket; None if nothing may start."""
        while tenants := dict(self._open()):
            tenant_id = self._tenants.choose(tenants)
            lane_bucket = self._take(*self._lanes.choose(tenants[tenant_id]))
            if lane_bucket.ready:  # else its lane was paused meanwhile
                lane_bucket.ready, lane_bucket.busy = False, True
                return lane_bucket
        return None

    def is_open(self) -> bool:
        """Return whether a bucket can be taken."""
        return next(self._open(), None) is not None

    def spend(self, lane: Lane, count: int) -> None:
        """Record how much a lane has used; an empty claim counts a little too."""
        self._tenants.spend(lane.tenant_id, max(1, count))
        self._lanes.spend((lane.tenant_id, lane.name), max(1, count) / lane.weight)

    def forget_others(self, lanes: Container[tuple[int, str]], tenants: Container[int]) -> None:
        """Forget the lanes and tenants that have nothing to do any more."""
        self._lanes.forget_others(lanes.__contains__)
        self._tenants.forget_others(tenants.__contains__)

    def _open(self) -> Iterator[tuple[int, list[tuple[int, str]]]]:
        for tenant_id, lanes in self._lane_buckets.items():
            if self._capacity.free(tenant_id) > 0:
                found = [
                    (tenant_id, name)
                    for name, ready in lanes.items()
                    if self._max_claim(ready[0].lane)
                ]
                if found:
                    yield tenant_id, found

    def _take(self, tenant_id: int, name: str) -> LaneBucket:
        lanes = self._lane_buckets[tenant_id]
        ready = lanes[name]
        lane_bucket = ready[0]
        if any(each.lane.priority != lane_bucket.lane.priority for each in ready):
            lane_bucket = min(ready, key=LaneBucket.order_at)
        ready.remove(lane_bucket)
        if not ready:
            del lanes[name]
        if not lanes:
            del self._lane_buckets[tenant_id]
        return lane_bucket
