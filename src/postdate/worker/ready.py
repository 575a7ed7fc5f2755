"""The places with something due, and whose turn it is."""

from collections import deque
from collections.abc import Iterator

from postdate.store.timer.lane import Lane
from postdate.worker.place import Place
from postdate.worker.share import Turns, Window


class Ready:
    """Tenants take turns, then their lanes by weight, then a lane's buckets one after another."""

    def __init__(self, window: Window) -> None:
        self._window = window
        self._places: dict[int, dict[int, deque[Place]]] = {}
        self._closed_until: dict[int, float] = {}
        self._tenants: Turns[int] = Turns()
        self._lanes: Turns[int] = Turns()

    def add(self, place: Place) -> None:
        """Let a place wait for its turn."""
        place.ready, place.busy = True, False
        lanes = self._places.setdefault(place.lane.tenant_id, {})
        lanes.setdefault(place.lane.lane_id, deque()).append(place)

    def close(self, lane: Lane, until: float) -> None:
        """Pass a lane over for a while: its limit is reached."""
        self._closed_until[lane.lane_id] = until

    def open(self, lane_id: int) -> None:
        """Pass a lane over no longer."""
        self._closed_until.pop(lane_id, None)

    def next(self, now: float) -> Place | None:
        """Take out the place whose turn it is; None when nobody may start anything."""
        while tenants := dict(self._open(now)):
            tenant_id = self._tenants.next(tenants)
            place = self._take(tenant_id, self._lanes.next(tenants[tenant_id]))
            if place.ready:  # else its lane was paused meanwhile
                place.ready, place.busy = False, True
                return place
        return None

    def opens_at(self, now: float) -> float | None:
        """Say when something can be taken out; None when nothing waits that has room."""
        times = (
            self._closed_until.get(lane_id, now)
            for tenant_id, lanes in self._places.items()
            if self._window.free(tenant_id) > 0
            for lane_id in lanes
        )
        return min(times, default=None)

    def spend(self, lane: Lane, count: int) -> None:
        """Note how much of its turn a lane has used; an empty turn counts a little too."""
        self._tenants.spend(lane.tenant_id, max(1, count))
        self._lanes.spend(lane.lane_id, max(1, count) / lane.weight)

    def keep(self, lanes: dict[int, Lane], now: float) -> None:
        """Forget the lanes that are gone."""
        tenants = {lane.tenant_id for lane in lanes.values()}
        self._lanes.keep(lanes.__contains__)
        self._tenants.keep(tenants.__contains__)
        self._closed_until = {k: at for k, at in self._closed_until.items() if at > now}

    def _open(self, now: float) -> Iterator[tuple[int, list[int]]]:
        for tenant_id, lanes in self._places.items():
            if self._window.free(tenant_id) > 0:
                found = [each for each in lanes if self._closed_until.get(each, now) <= now]
                if found:
                    yield tenant_id, found

    def _take(self, tenant_id: int, lane_id: int) -> Place:
        lanes = self._places[tenant_id]
        place = lanes[lane_id].popleft()
        if not lanes[lane_id]:
            del lanes[lane_id]
        if not lanes:
            del self._places[tenant_id]
        return place
