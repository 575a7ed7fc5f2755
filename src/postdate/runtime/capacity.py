"""Capacity: how many jobs may run at once in this process, lent to one owner at a time."""

from collections import Counter
from collections.abc import Collection
from typing import Final

TENANT_PART: Final = 0.75
"""The part of what is free that one tenant may fill: some room is always left for the next."""


MIN_SIZE: Final = 32
"""The least that may be under way, however late everything is."""

GROWTH: Final = 0.5
"""How much more may be under way for each that ended in time."""


class Capacity:
    """How much runs at once in this process, and for whom."""

    def __init__(self, size: int) -> None:
        self._max_size = size
        self.size: float = size
        self.running = 0
        self._running_of: Counter[int] = Counter()
        self._rooms: set[Room] = set()

    def free(self, tenant_id: int) -> int:
        """Return how many more one tenant may start while others may still come."""
        own = self._running_of[tenant_id]
        max_count = max(1, int((self.size - self.running + own) * TENANT_PART))
        return max(0, min(max_count - own, int(self.size) - self.running))

    def shrink(self, under_way: int) -> None:
        """Halve the capacity, because work did not end in time."""
        self.size = min(self._max_size, max(MIN_SIZE, min(self.size, under_way) // 2))

    def grow(self, count: int) -> None:
        """Increase the capacity again, because work has ended in time."""
        self.size = min(self._max_size, self.size + count * GROWTH)

    def take(self, tenant_id: int, count: int) -> "Room":
        """Take room for a number of starts; the owner must release it."""
        room = Room(self, tenant_id, count)
        if count:
            self._rooms.add(room)
            self._add(tenant_id, count)
        return room

    def release(self, room: "Room", count: int) -> None:
        """Reclaim a part of a room, unless it was already reclaimed."""
        if room in self._rooms:
            self._add(room.tenant_id, -count)
            if not room.count:
                self._rooms.discard(room)

    def keep_only(self, owned: Collection["Room"]) -> int:
        """Reclaim rooms without an owner, and return how many."""
        ownerless = self._rooms.difference(owned)
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
    """A part of the capacity. It only ever shrinks, and never below nothing."""

    __slots__ = ("_capacity", "count", "tenant_id")

    def __init__(self, capacity: Capacity, tenant_id: int, count: int) -> None:
        self._capacity = capacity
        self.tenant_id = tenant_id
        self.count = count

    def release(self, count: int) -> None:
        """Release a part of it."""
        if not 0 <= count <= self.count:
            raise ValueError(f"{count} of {self.count} cannot be released")
        self.count -= count
        self._capacity.release(self, count)

    def keep_only(self, count: int) -> None:
        """Release all but a part of it."""
        self.release(self.count - count)
