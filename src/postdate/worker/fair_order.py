"""Fair order: the participant that has used the least, relative to its weight, is next."""

from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class FairOrder(Generic[K]):
    """Stride scheduling: the participant that has used the least for its weight is next.

    A participant that returns after a pause starts level with the others, without a credit.
    """

    def __init__(self) -> None:
        self._passed: dict[K, float] = {}
        self._now = 0.0

    def choose(self, ready: Iterable[K]) -> K:
        """Choose among participants with work."""
        chosen = min(ready, key=lambda key: self._passed.get(key, self._now))
        self._now = max(self._now, self._passed.get(chosen, self._now))
        return chosen

    def spend(self, key: K, amount: float) -> None:
        """Record what was used."""
        self._passed[key] = max(self._passed.get(key, self._now), self._now) + amount

    def forget_others(self, known: Callable[[K], bool]) -> None:
        """Forget participants that are gone."""
        self._passed = {key: passed for key, passed in self._passed.items() if known(key)}
