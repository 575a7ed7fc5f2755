"""An event loop whose time is made up: nobody waits, and one seed gives one order of everything."""

import asyncio
import gc
import random
import time
from collections.abc import Coroutine
from heapq import heappop
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
        """Run what is ready; when nothing is, leap to what is planned next. Nothing is polled."""
        ready, planned = self._ready, self._scheduled  # type: ignore[attr-defined]
        while planned and planned[0]._cancelled:
            heappop(planned)._scheduled = False
        if not ready and planned:
            self.now = max(self.now, planned[0]._when)
        while planned and planned[0]._when <= self.now:
            handle = heappop(planned)
            handle._scheduled = False
            ready.append(handle)
        if not ready:
            raise RuntimeError("everybody waits for something that nobody plans")
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle._cancelled:
                handle._run()


async def wait(seconds: float) -> None:
    """Let made-up time pass: nobody waits for it."""
    loop = asyncio.get_running_loop()
    ended = loop.create_future()
    if seconds > 0:
        loop.call_at(loop.time() + seconds, _end_wait, ended)
    else:
        loop.call_soon(_end_wait, ended)
    await ended


def _end_wait(ended: asyncio.Future[None]) -> None:
    if not ended.done():
        ended.set_result(None)


def simulate(seed: int, history: Coroutine[Any, Any, T]) -> T:
    """Run a history to its end: its clock is the loop's, its luck comes from the seed."""
    loop, state = VirtualLoop(), random.getstate()
    random.seed(seed)
    gc.disable()  # a history leaves little, and looking for it takes a tenth of its time
    try:
        with mock.patch.object(time, "monotonic", loop.time):
            return loop.run_until_complete(history)
    finally:
        random.setstate(state)
        _end(loop)
        gc.enable()


def _end(loop: VirtualLoop) -> None:
    """End what a history has left: workers that were killed, strangers that still wait."""
    left = asyncio.all_tasks(loop)
    for each in left:
        each.cancel()
    if left:
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
    loop.close()
