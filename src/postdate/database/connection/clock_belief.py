"""How far this process believes the database's clock, and what it lets its sessions know.

The database compares its clock with the limit in every statement that asks for the time (`clock()`
in `functions/clock.sql`). A leap therefore changes nothing: from its first instant on, statements
see the believed time, which this machine's steady clock carries on.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

_STEADY: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Counts while the machine sleeps too, where the system has such a clock: waking is no leap."""

INFORM_SECONDS: Final = 2.0
"""How old the limit of a session may be when the session is taken from its pool."""

DOUBT_INFORM_SECONDS: Final = 0.1
"""How old that limit may be while the clock is doubted: the session's time stands still."""

CREEP: Final = 0.01
"""How much of the elapsed time the reference may gain: many small leaps are one large one."""


def steady_seconds() -> float:
    """Read a monotonic clock."""
    return time.clock_gettime(_STEADY)


class ClockBelief:
    """Compares the database's clock with this machine's steady one.

    The reference is the furthest that the one was believed to be ahead of the other. A clock that
    steps back and returns is thereby no leap; one that steps beyond is. The first time that is
    believed needs witnesses: this class does not know them. Until then, sessions are not informed.
    """

    def __init__(self, steady: Callable[[], float] = steady_seconds) -> None:
        self.steady = steady
        self._reference: float | None = None
        self._offset = 0.0
        self._seen_at = 0.0
        self._trusted_at = 0.0
        self._step_seconds = 0.0
        self.doubt: str | None = None
        """Why the database's clock is not believed, or None."""

    def trust(self, at: datetime, reference: datetime, step_seconds: float) -> None:
        """Believe a time; the clock may show up to `step_seconds` more than the reference."""
        self._seen_at = self._trusted_at = self.steady()
        self._offset = at.timestamp() - self._seen_at
        self._reference = max(reference, at).timestamp() - self._seen_at
        self._step_seconds = step_seconds

    def leap(self, at: datetime, step_seconds: float) -> float | None:
        """Return how far the database's clock leapt ahead; None if it is plausible, and believed.

        A limit that was changed holds from now on.
        """
        if self._reference is None:
            raise ValueError("no time has been believed yet")
        now = self.steady()
        offset, self._step_seconds = at.timestamp() - now, step_seconds
        if offset - self._reference > step_seconds:
            return offset - self._reference
        gained = min(offset - self._reference, (now - self._seen_at) * CREEP)
        self._reference += max(0.0, gained)
        self._offset, self._seen_at = offset, now
        return None

    def now(self) -> datetime:
        """Return the believed time."""
        return _instant(self._offset + self.steady())

    def shown(self, machine: datetime) -> datetime:
        """Return what `clock()` shows while the server's clock shows this."""
        if self._reference is None or machine <= self._limit():
            return machine
        return self.now()

    def message(self, informed_at: float | None) -> tuple[str, float] | None:
        """Return the statement for a session that was last informed then, and the present.

        None if it needs no news.
        """
        if self._reference is None:
            return None
        now = self.steady()
        max_seconds = DOUBT_INFORM_SECONDS if self.doubt else INFORM_SECONDS
        if (
            informed_at is not None
            and informed_at > self._trusted_at
            and now - informed_at < max_seconds
        ):
            return None
        limit = f"set_config('postdate.clock_limit', '{self._limit().isoformat()}', false)"
        believed = f"set_config('postdate.clock_believed', '{self.now().isoformat()}', false)"
        return f"SELECT {limit}, {believed}", now

    def _limit(self) -> datetime:
        return _instant((self._reference or 0.0) + self._step_seconds + self.steady())


def _instant(unix_seconds: float) -> datetime:
    return datetime.fromtimestamp(unix_seconds, UTC)
