"""Fair order: whoever has had the least, for its weight, is next."""

from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class FairOrder(Generic[K]):
    """Stride scheduling: whoever has had the least, for its weight, is next.

    Who comes back after a pause starts level with the others, not with a debt owed to it.
    """

    def __init__(self) -> None:
        self._passed: dict[K, float] = {}
        self._now = 0.0

    def choose(self, ready: Iterable[K]) -> K:
        """Choose among those who have something to do."""
        chosen = min(ready, key=lambda key: self._passed.get(key, self._now))
        self._now = max(self._now, self._passed.get(chosen, self._now))
        return chosen

    def spend(self, key: K, amount: float) -> None:
        """Note what was taken."""
        self._passed[key] = max(self._passed.get(key, self._now), self._now) + amount

    def forget_others(self, known: Callable[[K], bool]) -> None:
        """Forget those who are gone."""
        self._passed = {key: passed for key, passed in self._passed.items() if known(key)}
