"""A time limit for a part of a request."""

import asyncio
from types import TracebackType
from typing import Any, Final, Self

import msgspec

TICK_SECONDS: Final = 0.1
"""How often deadlines are checked, and so how late one may fire."""


class Deadline(msgspec.Struct, eq=False):
    """Cancels the block it guards after some seconds and turns that into a TimeoutError.

    It does what `asyncio.timeout` does for a tenth of its cost, which counts because every request
    passes two of them: all deadlines of a loop share one timer.
    """

    seconds: float
    expired: bool = False
    until: float = 0.0
    guarded: "asyncio.Task[Any] | None" = None
    running: "_Running | None" = None

    def __enter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self.guarded = asyncio.current_task(loop)
        self.until = loop.time() + self.seconds
        running = _last
        if running is None or running.loop is not loop:
            running = _begin_clock(loop)
        running.deadlines.add(self)
        if not running.ticking:
            running.tick_later()
        self.running = running
        return self

    def expire(self) -> None:
        """Cancel what is guarded."""
        if self.guarded is not None and not self.expired:
            self.expired = True
            self.guarded.cancel()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Undo the cancellation if only this deadline asked for it."""
        if self.running is not None:
            self.running.deadlines.discard(self)
        if not self.expired or self.guarded is None:
            return
        if self.guarded.uncancel() == 0 and kind is asyncio.CancelledError:
            raise TimeoutError from error


class _Running:
    """The deadlines that run in one loop; the clock ticks only while there are any."""

    __slots__ = ("deadlines", "loop", "ticking")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.deadlines: set[Deadline] = set()
        self.ticking = False

    def tick_later(self) -> None:
        self.ticking = True
        self.loop.call_later(TICK_SECONDS, self._tick)

    def _tick(self) -> None:
        now = self.loop.time()
        for deadline in [d for d in self.deadlines if d.until <= now]:
            deadline.expire()
        self.ticking = False
        if self.deadlines:
            self.tick_later()


_last: _Running | None = None


def _begin_clock(loop: asyncio.AbstractEventLoop) -> _Running:
    """Return the deadlines of a new loop: a process has one, so only the last is remembered."""
    global _last  # noqa: PLW0603
    _last = _Running(loop)
    return _last
