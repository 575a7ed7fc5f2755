"""An event loop whose time is made up: nobody waits, and one seed gives one order of everything."""

import asyncio
import random
import time
from collections.abc import Coroutine
from typing import Any, TypeVar
from unittest import mock

T = TypeVar("T")


class VirtualLoop(asyncio.SelectorEventLoop):
    """Leaps to the next instant at which anything is planned."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0

    def time(self) -> float:
        return self.now

    def _run_once(self) -> None:
        if not self._ready and self._scheduled:  # type: ignore[attr-defined]
            self.now = max(self.now, self._scheduled[0]._when)  # type: ignore[attr-defined]
        super()._run_once()  # type: ignore[misc]


async def wait(seconds: float) -> None:
    """Let made-up time pass: nobody waits for it."""
    await asyncio.sleep(seconds)


def simulate(seed: int, history: Coroutine[Any, Any, T]) -> T:
    """Run a history to its end: its clock is the loop's, its luck comes from the seed."""
    loop, state = VirtualLoop(), random.getstate()
    random.seed(seed)
    try:
        with mock.patch.object(time, "monotonic", loop.time):
            return loop.run_until_complete(history)
    finally:
        random.setstate(state)
        _end(loop)


def _end(loop: VirtualLoop) -> None:
    """End what a history has left: workers that were killed, strangers that still wait."""
    left = asyncio.all_tasks(loop)
    for each in left:
        each.cancel()
    loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
    loop.close()
