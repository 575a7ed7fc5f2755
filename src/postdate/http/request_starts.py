"""Start requests a few in each turn of the event loop, so that other work gets its turn."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

STARTS_AT_ONCE: Final = 2
"""How many requests start in one turn of the event loop, of all connections together."""


class RequestStarts:
    """Calls back in order, a few callbacks in each turn of the event loop, the addresses in turn.

    Every connection with a request would otherwise have it served in each turn: a thousand of them
    make a turn of a tenth of a second, in which nothing is settled and no lease is renewed. A
    settlement waits for a dozen turns, so that each of them has to be short.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, deque[Callable[[], None]]] = {}
        self._room = STARTS_AT_ONCE

    def add(self, address: str, start: Callable[[], None]) -> None:
        """Call it now, or when a client of its address has its turn."""
        if self._room == STARTS_AT_ONCE:
            asyncio.get_running_loop().call_soon(self._start_waiting)
        if self._room:
            self._room -= 1
            start()
        else:
            self._waiting.setdefault(address, deque()).append(start)

    def _start_waiting(self) -> None:
        self._room = STARTS_AT_ONCE
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._start_waiting)
        while self._waiting and self._room:
            self._room -= 1
            address = next(iter(self._waiting))
            starts = self._waiting.pop(address)
            starts.popleft()()
            if starts:
                self._waiting[address] = starts
