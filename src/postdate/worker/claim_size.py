"""How many jobs to claim at once: as many as a claim can take in a few milliseconds, here and now.

A number that suits one machine is twice too large for another, and for the same one at night. What
a claim may take is said as time instead: others wait for their turn, and for the rows, as long.
"""

from typing import Final

MAX_JOBS: Final = 500
MIN_JOBS: Final = 50
FIRST_JOBS: Final = 250
TARGET_SECONDS: Final = 0.01
SHARE: Final = 0.2
"""How much of the way to what would have fitted one claim goes: one slow claim proves little."""


class ClaimSize:
    """The size of the next claim, learned from the last ones."""

    def __init__(self, max_size: int = MAX_JOBS) -> None:
        self._max_size = max_size
        self._size = float(min(FIRST_JOBS, max_size))

    @property
    def size(self) -> int:
        """Return how many to claim."""
        return round(self._size)

    def learn(self, count: int, seconds: float) -> None:
        """Learn from a claim; one that found less than it may says nothing about its size."""
        if count < self.size or seconds <= 0:
            return
        fits = count * TARGET_SECONDS / seconds
        min_size = min(MIN_JOBS, self._max_size)
        self._size += SHARE * (min(max(fits, min_size), self._max_size) - self._size)
