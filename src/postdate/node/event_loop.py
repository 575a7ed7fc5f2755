"""Measure how long something blocks the event loop: meanwhile nothing is served or renewed."""

import asyncio
import sys
import threading
import time
import traceback
from collections import deque
from types import FrameType
from typing import Final

import msgspec

from postdate.core.log import Log

log = Log()

TICK_SECONDS: Final = 0.1
WINDOW_SECONDS: Final = 60.0
"""Report the maximum of this window and the one before, so that several scrapers see a peak."""

REPORT_SECONDS: Final = 1.0
"""Held for longer than this, it is a line in the log."""

SAMPLE_SECONDS: Final = 0.05
CPU_SECONDS: Final = 0.1
"""Who uses more of the loop's CPU in one go is recorded with its stack, sampled so often.

CPU, and not time: on a busy machine a step that uses little may take long.
"""

MAX_HOLDS: Final = 100
"""The latest ones are kept."""

_STACK_FRAMES: Final = 12


class LoopHold(msgspec.Struct, frozen=True):
    """One time that something held the loop, with its innermost frames where they were seen."""

    cpu_seconds: float
    stack: list[str]


class LoopWatch:
    """Sleeps repeatedly; a sleep that takes too long means that something blocked the loop.

    A thread beside it asks the loop for a sign of life and, while there is none, reads the loop's
    CPU clock and its stack.
    """

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._before = 0.0
        self._now = 0.0
        self.holds: deque[LoopHold] = deque(maxlen=MAX_HOLDS)

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
        sampler = _LoopSampler(asyncio.get_running_loop(), self.holds)
        sampler.start()
        try:
            while True:
                due = time.monotonic() + TICK_SECONDS
                await asyncio.sleep(TICK_SECONDS)
                at = time.monotonic()
                self.record(max(0.0, at - due), at)
        finally:
            sampler.stopped.set()


class _LoopSampler(threading.Thread):
    """Asks the loop for a sign of life; the CPU that it uses before it answers was one hold."""

    def __init__(self, loop: asyncio.AbstractEventLoop, holds: deque[LoopHold]) -> None:
        super().__init__(name="loop watch", daemon=True)
        self.stopped = threading.Event()
        self._loop = loop
        self._holds = holds
        self._loop_thread = threading.get_ident()
        self._clock = time.pthread_getcpuclockid(self._loop_thread)
        self._asked_cpu = 0.0
        self._answered = True
        self._stack: list[str] = []

    def run(self) -> None:
        """Sample until stopped."""
        while not self.stopped.wait(SAMPLE_SECONDS):
            if self._answered:
                self._ask()
            elif not self._stack:
                self._sample()

    def _ask(self) -> None:
        self._answered, self._stack = False, []
        self._asked_cpu = time.clock_gettime(self._clock)
        try:
            self._loop.call_soon_threadsafe(self._answer)
        except RuntimeError:  # the loop was closed
            self.stopped.set()

    def _sample(self) -> None:
        if time.clock_gettime(self._clock) - self._asked_cpu > CPU_SECONDS / 2:
            frame = sys._current_frames().get(self._loop_thread)  # noqa: SLF001 - documented
            self._stack = _frames(frame)

    def _answer(self) -> None:
        """Note, on the loop, how much CPU it used since it was asked."""
        held = time.thread_time() - self._asked_cpu
        if held > CPU_SECONDS:
            self._holds.append(LoopHold(held, self._stack))
            stack = " < ".join(reversed(self._stack))
            log.warning("event_loop.held", cpu_seconds=round(held, 3), stack=stack)
        self._answered = True


def _frames(frame: FrameType | None) -> list[str]:
    """Render the innermost frames, the caller of each before it."""
    return [
        f"{found.filename}:{found.lineno} {found.name}"
        for found in traceback.StackSummary.extract(
            traceback.walk_stack(frame), limit=_STACK_FRAMES, lookup_lines=False
        )
    ][::-1]
