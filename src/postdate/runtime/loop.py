"""The loop around a stage's step: it only sleeps, wakes and backs off."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from postdate.core.log import Log

log = Log()

POLL_SECONDS: Final = 0.9
"""The longest sleep. Polling is the truth; a wake-up is only a hint."""

MAX_ALIGNED_SECONDS: Final = 10.0
"""Loops that poll at least this often wake on common ticks, so that they can ask together."""

TICK_SECONDS: Final = 0.05
"""A tick that is nearer than this counts as passed: a wake-up may come a little early."""

MIN_BACKOFF_SECONDS: Final = 0.05
MAX_BACKOFF_SECONDS: Final = 2.0
VAIN_SECONDS: Final = 0.01
MAX_VAIN_SECONDS: Final = 0.5
"""The shortest and the longest pause while everything due is locked elsewhere."""

STALLED_SECONDS: Final = 30.0


def next_tick(now: float, poll_seconds: float = POLL_SECONDS) -> float:
    """Return the next common instant at which loops with about this interval wake.

    Intervals are multiples of the shortest, so that the ticks of the slow ones are ticks of all.
    """
    step = POLL_SECONDS * max(1, int(poll_seconds / POLL_SECONDS))
    return ((now + TICK_SECONDS) // step + 1) * step


class Signal:
    """Wakes the loops that were made to be woken by it."""

    def __init__(self) -> None:
        self._loops: list[Loop] = []

    def add(self, loop: "Loop") -> None:
        """Add a loop to wake."""
        self._loops.append(loop)

    def send(self) -> None:
        """Wake every loop: there may be something to do."""
        for loop in self._loops:
            loop.wake()


class Loop:
    """Repeats a step: immediately while it finds work, otherwise when something is due."""

    def __init__(  # noqa: PLR0913 - how often, when and how long, by name
        self,
        name: str,
        run_once: Callable[[int], Awaitable[int]],
        *,
        limit: int,
        next_due: Callable[[], Awaitable[float | None]] | None = None,
        poll_seconds: float = POLL_SECONDS,
        rest_seconds: float = 0.0,
        blocked: Callable[[], str | None] | None = None,
        woken_by: Signal | None = None,
        finish: Callable[[], Awaitable[None]] | None = None,
        vital: bool = True,
    ) -> None:
        self.name = name
        self.vital = vital
        """Whether a node is unusable while this loop does not run."""
        self._run_once = run_once
        self._limit = limit
        self._next_due = next_due
        self._poll = poll_seconds
        self._rest = rest_seconds
        self._blocked = blocked
        self._finish = finish
        self._wake = asyncio.Event()
        if woken_by is not None:
            woken_by.add(self)
        self._stop = False
        self._alive_at = time.monotonic()
        self._vain_steps = 0
        self.failures = 0

    def wake(self) -> None:
        """Hint that something may be due sooner than planned."""
        self._wake.set()

    def stop(self) -> None:
        """Finish the current step, then end."""
        self._stop = True
        self._wake.set()

    @property
    def silent_seconds(self) -> float:
        """Return how long ago a step last succeeded."""
        return time.monotonic() - self._alive_at

    @property
    def blocked(self) -> str | None:
        """Return why it was told to stop, or None."""
        return self._blocked() if self._blocked is not None else None

    def stalled(self) -> str | None:
        """Return why this loop is not doing its work, or None."""
        if reason := self.blocked:
            return reason
        silent = self.silent_seconds
        if silent > self._poll + STALLED_SECONDS:
            return f"no step has succeeded for {silent:.0f} s"
        return None

    async def run(self) -> None:
        """Loop until stopped. A failing step is logged and retried with growing pauses.

        After the last step, `finish` completes running work.
        """
        while not self._stop:
            self._wake.clear()
            try:
                count = await self._run_once(self._limit)
                pause = 0.0 if count >= self._limit else await self._pause(count)
            except Exception as error:  # noqa: BLE001 - a stage outlives every surprise
                pause = self._back_off(error)
            else:
                self.failures = 0
                self._alive_at = time.monotonic()
            await self._sleep(pause)
        if self._finish is not None:
            await self._finish()

    async def _pause(self, count: int) -> float:
        """Return the seconds until the next step; pause longer after repeated empty steps."""
        due = await self._next_due() if self._next_due else None
        in_vain = due is not None and due <= 0 and not count
        self._vain_steps = self._vain_steps + 1 if in_vain else 0
        if self._vain_steps > 1:
            return float(min(VAIN_SECONDS * 2 ** min(self._vain_steps - 2, 8), MAX_VAIN_SECONDS))
        poll = self._poll
        if POLL_SECONDS <= poll <= MAX_ALIGNED_SECONDS:
            now = time.monotonic()
            poll = next_tick(now, poll) - now
        return poll if due is None else max(0.0, min(due, poll))

    def _back_off(self, error: Exception) -> float:
        self.failures += 1
        pause: float = min(MIN_BACKOFF_SECONDS * 2 ** min(self.failures, 10), MAX_BACKOFF_SECONDS)
        log.warning(
            "loop.failed",
            loop=self.name,
            failures=self.failures,
            pause=pause,
            error=f"{type(error).__name__}: {error}",
            exc_info=self.failures == 1,
        )
        return pause

    async def _sleep(self, seconds: float) -> None:
        """Sleep until it is time or a hint comes, but always briefly, so that hints gather."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        if self._rest:
            await asyncio.sleep(min(self._rest, seconds))
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, seconds - self._rest)):
                await self._wake.wait()
