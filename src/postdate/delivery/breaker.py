"""The circuit breaker of one destination: pure, with time as an argument.

While it is closed, all calls pass. After some failures in a row it opens, and no call passes for a
while. Then one call probes; while probes succeed, the number of concurrent calls doubles until the
breaker is closed again, and a failure opens it for twice as long. So a destination that is down
sees an occasional probe instead of every retry, and one that recovers is not overwhelmed by waiting
jobs.

A destination that serves some calls and fails others is not down: its breaker opens for seconds
only and probes with several calls. Otherwise waiting jobs would wait a minute for each failing one.

A call that is held back gets a position in a queue. If all retried at once, they would keep the
process busy; if all waited as long as the breaker has been open, they would return long after the
destination has.
"""

from collections import deque
from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from postdate.delivery.call_log import CallLog
from postdate.destination.spec.trouble import DestinationKey, TroubleReport

FAILURES: Final = 8
OPEN_SECONDS: Final = 1.0
MAX_OPEN_SECONDS: Final = 60.0
MAX_PARTLY_OPEN_SECONDS: Final = 4.0
"""Maximum open time of a destination that has served one of its latest calls."""

LINE_SECONDS: Final = 0.01
"""Spacing between calls that return after the breaker held them back."""

RAMP: Final = 64
"""The breaker counts as closed when it allows this many probes at once."""

REMEMBERED: Final = 10_000
"""Most destinations in trouble that a process remembers; the oldest are forgotten first."""


LEARN_SECONDS: Final = 3.0
"""How long it takes at most until the others know what one process has learned."""

CALLS: Final = 100
"""How many of its latest calls describe a failing destination."""

ANSWERS: Final = 5


class Health(StrEnum):
    """What a call says about its destination, independent of the job's outcome."""

    UP = "up"
    DOWN = "down"
    BUSY = "busy"
    SILENT = "silent"  # the call never left, or was given up by us


class Breaker:
    """Counts the results of a destination's calls and decides which calls may go."""

    __slots__ = (
        "_allowance",
        "_answers",
        "_calls",
        "_failures",
        "_hearsay",
        "_line_until",
        "_max_open_seconds",
        "_open_seconds",
        "_open_until",
        "_opened_at",
        "_probes",
        "_recorded",
    )

    def __init__(self, max_open_seconds: float = MAX_OPEN_SECONDS) -> None:
        self._failures = 0
        self._line_until = 0.0
        self._max_open_seconds = max_open_seconds
        self._open_seconds = OPEN_SECONDS
        self._open_until: float | None = None
        self._opened_at = 0.0
        self._allowance = 0
        self._probes = 0
        self._recorded = 0
        self._hearsay = False
        self._calls: deque[tuple[float, bool]] = deque(maxlen=CALLS)
        self._answers: deque[str] = deque(maxlen=ANSWERS)

    @property
    def closed(self) -> bool:
        """Return whether all calls pass."""
        return self._open_until is None

    @property
    def is_pristine(self) -> bool:
        """Return whether it is in its initial state."""
        return self.closed and not self._failures

    @property
    def is_hearsay(self) -> bool:
        """Return whether it is open only because another process has reported so."""
        return not self.closed and self._hearsay

    def hold(self, now: float, seconds: float) -> None:
        """Open for some time, because another process has found the destination failing.

        Only the results of probes are reported to others, not those of calls that were already
        running: otherwise processes would keep reporting trouble that is over to each other.
        """
        self._hearsay = True
        self._open(now, seconds)

    def state(self, now: float) -> str:
        """Return the state of the breaker."""
        if self._open_until is None:
            return "failing"
        return "open" if now < self._open_until else "probing"

    def report(self, now: float) -> TroubleReport | None:
        """Return the report of an open breaker; None if it is closed."""
        if self._open_until is None or self.is_hearsay:
            return None
        seconds = sorted(seconds for seconds, _ in self._calls)
        return TroubleReport(
            recorded=self._recorded,
            held_seconds=max(0.0, self._open_until - now),
            open_for_seconds=now - self._opened_at,
            calls=len(seconds),
            successes=sum(well for _, well in self._calls),
            p99_ms=round(1000 * seconds[len(seconds) * 99 // 100]) if seconds else 0,
            answers=tuple(self._answers),
        )

    def admit(self, now: float) -> float:
        """Return 0 for a call that may go, otherwise after how many seconds to try again.

        Each admitted call must be recorded once, with the instant at which it was admitted.
        """
        if self._open_until is None:
            return 0.0
        if now < self._open_until:
            return self._position(now, self._open_until)
        if self._probes >= self._allowance:
            return self._position(now, now + OPEN_SECONDS)
        self._probes += 1
        return 0.0

    def _position(self, now: float, earliest: float) -> float:
        """Return the delay of the next position in the queue."""
        self._line_until = max(self._line_until + LINE_SECONDS, earliest)
        return min(self._line_until - now, MAX_OPEN_SECONDS)

    def record(
        self,
        admitted_at: float,
        now: float,
        health: Health,
        seconds: float = 0.0,
        answer: str = "",
    ) -> None:
        """Record the result of a call; BUSY may carry how long to hold calls back."""
        if health is not Health.SILENT:
            self._recorded += 1
            self._calls.append((now - admitted_at, health is Health.UP))
            self._answers.append(answer)
        probed = self._open_until is not None and admitted_at >= self._open_until
        if probed:
            self._probes -= 1
        if health is Health.BUSY or (probed and health is not Health.SILENT):
            self._hearsay = False
        match health:
            case Health.UP:
                self._up(probed=probed)
            case Health.DOWN:
                self._down(now, probed=probed)
            case Health.BUSY:
                self._open(now, max(OPEN_SECONDS, min(seconds, MAX_OPEN_SECONDS)))
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
            longest = MAX_PARTLY_OPEN_SECONDS if self._serves_some() else self._max_open_seconds
            self._open_seconds = min(self._open_seconds * 2, longest)
            self._open(now, self._open_seconds)
        elif self.closed:
            self._failures += 1
            if self._failures >= FAILURES:
                self._open(now, self._open_seconds)

    def _open(self, now: float, seconds: float) -> None:
        if self._open_until is None:
            self._opened_at = now
        self._open_until = max(self._open_until or 0.0, now + seconds)
        self._allowance = FAILURES if self._serves_some() else 1
        self._probes = 0

    def _serves_some(self) -> bool:
        """Return whether one of its latest calls since the trouble began has succeeded."""
        return any(served for _, served in self._calls)


class Breakers:
    """The breakers of a process, and its log of calls. Only failing destinations have a breaker."""

    def __init__(self, max_open_seconds: float = MAX_OPEN_SECONDS) -> None:
        self._max_open_seconds = max_open_seconds
        self._breakers: dict[DestinationKey, Breaker] = {}
        self.calls = CallLog()

    def admit(self, key: DestinationKey, now: float) -> float:
        """Return 0 for a call that may go, otherwise after how many seconds to try again."""
        breaker = self._breakers.get(key)
        return 0.0 if breaker is None else breaker.admit(now)

    def record(
        self,
        key: DestinationKey,
        admitted_at: float,
        now: float,
        health: Health,
        seconds: float = 0.0,
        answer: str = "",
        *,
        failed: bool = False,
    ) -> None:
        """Record the result of a call; a destination that is up may refuse all that it is sent."""
        if health is not Health.SILENT:
            good = health is Health.UP and not failed
            self.calls.record(key, now, now - admitted_at, succeeded=good, answer=answer)
        breaker = self._breakers.get(key)
        if breaker is None:
            if health in {Health.UP, Health.SILENT}:
                return
            breaker = self._new(key)
        breaker.record(admitted_at, now, health, seconds, answer)
        if breaker.is_pristine:
            del self._breakers[key]

    def adopt(self, held: Mapping[DestinationKey, float], now: float) -> None:
        """Hold calls back where other processes do; `held` has the remaining seconds.

        The reporting process keeps probing. The others let calls pass when it has closed its
        breaker, or probe themselves if it stops reporting.
        """
        hearsay = [key for key, breaker in self._breakers.items() if breaker.is_hearsay]
        for key in set(hearsay) - set(held):
            del self._breakers[key]
        for key, seconds in held.items():
            breaker = self._breakers.get(key)
            if seconds > 0 and (breaker is None or breaker.closed or breaker.is_hearsay):
                (breaker or self._new(key)).hold(now, seconds + LEARN_SECONDS)

    def _new(self, key: DestinationKey) -> Breaker:
        if len(self._breakers) >= REMEMBERED:
            del self._breakers[next(iter(self._breakers))]
        self._breakers[key] = Breaker(self._max_open_seconds)
        return self._breakers[key]

    def reports(self, now: float) -> dict[DestinationKey, TroubleReport]:
        """Return the destinations whose breaker is open."""
        reports = ((key, breaker.report(now)) for key, breaker in self._breakers.items())
        return {key: report for key, report in reports if report is not None}

    def forget(self, key: DestinationKey) -> None:
        """Remove a breaker, because a call outside of it has succeeded."""
        self._breakers.pop(key, None)

    def states(self, now: float) -> dict[str, int]:
        """Count the failing destinations by state: failing, open, or being probed."""
        found = {"failing": 0, "open": 0, "probing": 0}
        for breaker in self._breakers.values():
            found[breaker.state(now)] += 1
        return found
