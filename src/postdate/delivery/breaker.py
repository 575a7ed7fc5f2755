"""The circuit breaker of one destination: pure, its time is given to it.

Closed, everything passes. After some failures in a row it opens and nothing passes for a while.
Then one call probes; while probes succeed the number that may run at once doubles until it is
closed again, and a failure opens it for twice as long. So a destination that is down sees a probe
now and then instead of every retry, and one that comes back is not buried by all that waited.
"""

from collections.abc import Hashable
from enum import StrEnum
from typing import Final

FAILURES: Final = 8
OPEN_SECONDS: Final = 1.0
MOST_OPEN_SECONDS: Final = 60.0
RAMP: Final = 64
"""With so many probes allowed at once the breaker counts as closed."""

REMEMBERED: Final = 10_000
"""Most destinations in trouble that a process remembers; the oldest are forgotten first."""


class Health(StrEnum):
    """What a call says about its destination, whatever it says about the job."""

    UP = "up"
    DOWN = "down"
    BUSY = "busy"
    SILENT = "silent"  # the call never left, or was given up by us


class Breaker:
    """Counts what comes back from a destination and says who may call it next."""

    __slots__ = ("_allowance", "_failures", "_open_seconds", "_open_until", "_probes")

    def __init__(self) -> None:
        self._failures = 0
        self._open_seconds = OPEN_SECONDS
        self._open_until: float | None = None
        self._allowance = 0
        self._probes = 0

    @property
    def closed(self) -> bool:
        """Say whether everything passes."""
        return self._open_until is None

    @property
    def untroubled(self) -> bool:
        """Say whether it knows nothing that a new one would not know."""
        return self.closed and not self._failures

    def state(self, now: float) -> str:
        """Say how a destination in trouble stands."""
        if self._open_until is None:
            return "failing"
        return "open" if now < self._open_until else "probing"

    def admit(self, now: float) -> float:
        """Give 0 for a call that may go, else after how many seconds to ask again.

        Each admitted call must be recorded once, with the instant at which it was admitted.
        """
        if self._open_until is None:
            return 0.0
        if now < self._open_until:
            return self._open_until - now
        if self._probes >= self._allowance:
            return self._open_seconds
        self._probes += 1
        return 0.0

    def record(self, admitted_at: float, now: float, health: Health, seconds: float = 0.0) -> None:
        """Take in how a call ended; BUSY may say for how long it wants to be left alone."""
        probed = self._open_until is not None and admitted_at >= self._open_until
        if probed:
            self._probes -= 1
        match health:
            case Health.UP:
                self._up(probed=probed)
            case Health.DOWN:
                self._down(now, probed=probed)
            case Health.BUSY:
                self._open(now, max(OPEN_SECONDS, min(seconds, MOST_OPEN_SECONDS)))
            case Health.SILENT:
                pass

    def _up(self, *, probed: bool) -> None:
        if self.closed:
            self._failures = 0
        elif probed:
            self._allowance *= 2
            if self._allowance >= RAMP:
                self._open_until, self._open_seconds = None, OPEN_SECONDS
                self._failures = self._probes = 0

    def _down(self, now: float, *, probed: bool) -> None:
        if probed:
            self._open_seconds = min(self._open_seconds * 2, MOST_OPEN_SECONDS)
            self._open(now, self._open_seconds)
        elif self.closed:
            self._failures += 1
            if self._failures >= FAILURES:
                self._open(now, self._open_seconds)

    def _open(self, now: float, seconds: float) -> None:
        self._open_until = max(self._open_until or 0.0, now + seconds)
        self._allowance = 1
        self._probes = 0


class Breakers:
    """The breakers of a process. Only destinations in trouble have one."""

    def __init__(self) -> None:
        self._breakers: dict[Hashable, Breaker] = {}

    def admit(self, key: Hashable, now: float) -> float:
        """Give 0 for a call that may go, else after how many seconds to ask again."""
        breaker = self._breakers.get(key)
        return 0.0 if breaker is None else breaker.admit(now)

    def record(
        self, key: Hashable, admitted_at: float, now: float, health: Health, seconds: float = 0.0
    ) -> None:
        """Take in how a call ended."""
        breaker = self._breakers.get(key)
        if breaker is None:
            if health in {Health.UP, Health.SILENT}:
                return
            if len(self._breakers) >= REMEMBERED:
                del self._breakers[next(iter(self._breakers))]
            breaker = self._breakers[key] = Breaker()
        breaker.record(admitted_at, now, health, seconds)
        if breaker.untroubled:
            del self._breakers[key]

    def states(self, now: float) -> dict[str, int]:
        """Count the destinations in trouble: failing, open, or being probed again."""
        found = {"failing": 0, "open": 0, "probing": 0}
        for breaker in self._breakers.values():
            found[breaker.state(now)] += 1
        return found
