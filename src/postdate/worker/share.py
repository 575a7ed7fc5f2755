"""Fair shares: tenants take turns, and within a tenant its lanes, by weight."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
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

    def room(self, tenant_id: int) -> int:
        """Say how many more one tenant may start while others may still come."""
        own = self._running_of[tenant_id]
        most = max(1, int((self.size - self.running + own) * TENANT_PART))
        return max(0, min(most - own, self.size - self.running))

    def add(self, tenant_id: int, count: int) -> None:
        """Note starts; a negative count notes ends."""
        self.running += count
        self._running_of[tenant_id] += count
        if not self._running_of[tenant_id]:
            del self._running_of[tenant_id]
