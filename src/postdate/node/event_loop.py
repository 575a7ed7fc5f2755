"""Measure how long something blocks the event loop: meanwhile nothing is served or renewed."""

import asyncio
import time
from typing import Final

from postdate.model.log import Log

log = Log()

TICK_SECONDS: Final = 0.1
WINDOW_SECONDS: Final = 60.0
"""The longest time is told for this window and the one before: any number may ask."""

REPORT_SECONDS: Final = 1.0
"""Held for longer than this, it is a line in the log."""


class LoopWatch:
    """Sleeps repeatedly; a sleep that takes too long means that something blocked the loop."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._before = 0.0
        self._now = 0.0

    @property
    def longest_seconds(self) -> float:
        """Return the longest recent time that something blocked the event loop."""
        return max(self._before, self._now)

    def record(self, held_seconds: float, at: float) -> None:
        """Record one measurement."""
        if at - self._began > WINDOW_SECONDS:
            self._began, self._before, self._now = at, self._now, 0.0
        self._now = max(self._now, held_seconds)
        if held_seconds > REPORT_SECONDS:
            log.warning("event_loop.held", seconds=round(held_seconds, 3))

    async def run(self) -> None:
        """Measure until cancelled."""
        while True:
            due = time.monotonic() + TICK_SECONDS
            await asyncio.sleep(TICK_SECONDS)
            at = time.monotonic()
            self.record(max(0.0, at - due), at)
