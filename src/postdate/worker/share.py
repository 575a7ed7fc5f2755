"""Fair shares: tenants take turns, and within a tenant its lanes, by weight."""

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable
from typing import Final, Generic, TypeVar

K = TypeVar("K", bound=Hashable)

TENANT_PART: Final = 0.75
"""The part of what is free that one tenant may fill: some room is always left for the next."""


class Turns(Generic[K]):
    """Stride scheduling: whoever has had the least, for its weight, is next.

    Who comes back after a pause starts level with the others, not with a debt owed to it.
    """

    def __init__(self) -> None:
        self._passed: dict[K, float] = {}
        self._now = 0.0

    def next(self, ready: Iterable[K]) -> K:
        """Choose among those who have something to do."""
        chosen = min(ready, key=lambda key: self._passed.get(key, self._now))
        self._now = max(self._now, self._passed.get(chosen, self._now))
        return chosen

    def spend(self, key: K, amount: float) -> None:
        """Note what was taken."""
        self._passed[key] = max(self._passed.get(key, self._now), self._now) + amount

    def keep(self, known: Callable[[K], bool]) -> None:
        """Forget those who are gone."""
        self._passed = {key: passed for key, passed in self._passed.items() if known(key)}


class Window:
    """How much runs at once in this process, and for whom."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.running = 0
        self._running_of: Counter[int] = Counter()
        self._rooms: set[Room] = set()

    def free(self, tenant_id: int) -> int:
        """Say how many more one tenant may start while others may still come."""
        own = self._running_of[tenant_id]
        most = max(1, int((self.size - self.running + own) * TENANT_PART))
        return max(0, min(most - own, self.size - self.running))

    def enter(self, tenant_id: int, count: int) -> "Room":
        """Take room for so many starts; whoever owns it gives it back."""
        room = Room(self, tenant_id, count)
        if count:
            self._rooms.add(room)
            self._add(tenant_id, count)
        return room

    def leave(self, room: "Room", count: int) -> None:
        """Take back a part of a room, unless it was taken back already."""
        if room in self._rooms:
            self._add(room.tenant_id, -count)
            if not room.count:
                self._rooms.discard(room)

    def keep_only(self, rooms: Collection["Room"]) -> int:
        """Take back the rooms that have no owner any more, and say how many."""
        ownerless = self._rooms.difference(rooms)
        for room in ownerless:
            self._rooms.discard(room)
            self._add(room.tenant_id, -room.count)
        return len(ownerless)

    def _add(self, tenant_id: int, count: int) -> None:
        self.running += count
        self._running_of[tenant_id] += count
        if not self._running_of[tenant_id]:
            del self._running_of[tenant_id]


class Room:
    """A part of the window. It only ever shrinks, and never below nothing."""

    __slots__ = ("_window", "count", "tenant_id")

    def __init__(self, window: Window, tenant_id: int, count: int) -> None:
        self._window = window
        self.tenant_id = tenant_id
        self.count = count

    def leave(self, count: int) -> None:
        """Give so much of it back."""
        if not 0 <= count <= self.count:
            raise ValueError(f"{count} cannot leave a room of {self.count}")
        self.count -= count
        self._window.leave(self, count)

    def keep(self, count: int) -> None:
        """Give back all but so much of it."""
        self.leave(self.count - count)
