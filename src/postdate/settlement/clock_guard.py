"""Watch the database's clock: a jump ahead must not cause early payments."""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

# Counts while the machine sleeps too, where the system has such a clock: waking up is no leap.
_STEADY: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def steady_seconds() -> float:
    """Read a monotonic clock."""
    return time.clock_gettime(_STEADY)


def node_time() -> datetime:
    """Read this machine's own clock, for comparison only."""
    return datetime.now(UTC)


def seconds_ahead(at: datetime, *witnesses: datetime) -> float:
    """Return how far a time is ahead of the latest reference."""
    return min((at - witness).total_seconds() for witness in witnesses)


class ClockGuard:
    """Compares the database's clock with this machine's monotonic one.

    What is kept is the furthest that the one was ever believed to be ahead of the other. A clock
    that steps back and returns is thereby no leap; one that steps beyond is. The first time that
    is believed needs witnesses: this class does not know them.
    """

    def __init__(self, steady: Callable[[], float] = steady_seconds) -> None:
        self._steady = steady
        self._believed: float | None = None

    @property
    def has_reference(self) -> bool:
        """Return whether there is a time to compare with."""
        return self._believed is not None

    def leap(self, at: datetime, max_seconds: float) -> float | None:
        """Return how far the database's time jumped ahead, or None if it is plausible."""
        offset = at.timestamp() - self._steady()
        if self._believed is None:
            self._believed = offset
        ahead = offset - self._believed
        if ahead > max_seconds:
            return ahead
        self._believed = max(offset, self._believed)
        return None

    def accept_time(self, at: datetime) -> None:
        """Accept the current time, because references or a person have confirmed it."""
        self._believed = at.timestamp() - self._steady()
