"""How many payments a commit takes: fewer where accounts would be locked for long."""

from typing import Final

LOCKED_SECONDS: Final = 0.1
"""How long a batch may lock its accounts. Settlers that share a payee wait for each other, and no
transaction waits for more than half a second: so four of them do not run into that."""

MIN_BATCH: Final = 100
"""Payments below which a commit costs more than what it settles."""


class BatchSize:
    """The size of the next batch: halved after a slow one, doubled after quick ones."""

    def __init__(self, maximum: int) -> None:
        self._maximum = maximum
        self.current = maximum

    def learn(self, payments: int, locked_seconds: float) -> None:
        """Take a committed batch into account; a small one says nothing about a large one."""
        if locked_seconds > LOCKED_SECONDS:
            self.current = max(min(MIN_BATCH, self._maximum), min(self.current, payments) // 2)
        elif locked_seconds < LOCKED_SECONDS / 3 and payments >= self.current:
            self.current = min(self._maximum, 2 * self.current)
