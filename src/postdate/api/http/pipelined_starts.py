"""Start requests that waited behind others a few at a time, so that other work gets its turn."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

STARTS_AT_ONCE: Final = 4
"""How many waiting requests start in one turn of the event loop, of all connections together."""


class PipelinedStarts:
    """Calls back in order, a few callbacks in each turn of the event loop.

    Every connection with waiting requests would otherwise have one served in each turn: a thousand
    of them make a turn of a tenth of a second, in which nothing is settled and no lease is renewed.
    """

    def __init__(self) -> None:
        self._queue: deque[Callable[[], None]] = deque()

    def add(self, start: Callable[[], None]) -> None:
        """Call it when those before it have had their turn."""
        if not self._queue:
            asyncio.get_running_loop().call_soon(self._take)
        self._queue.append(start)

    def _take(self) -> None:
        for _ in range(min(STARTS_AT_ONCE, len(self._queue))):
            self._queue.popleft()()
        if self._queue:
            asyncio.get_running_loop().call_soon(self._take)
