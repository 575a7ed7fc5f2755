"""Bound the memory of requests that wait to be read, and of answers that no client reads."""

from collections import Counter
from collections.abc import Callable
from typing import Final, Protocol

ADDRESS_BYTES: Final = 32 * 1024 * 1024
TOTAL_BYTES: Final = 128 * 1024 * 1024
"""The most bytes of one kind that wait to be read: of one address, and of all."""


class SlowConnection(Protocol):
    """A connection whose client sends faster than it is served, or reads more slowly."""

    address: str

    def drop(self) -> None:
        """End it at once."""


class UnreadBytes:
    """Counts the bytes that wait; beyond a limit, the oldest are dropped."""

    def __init__(self, exempt: Callable[[str], bool]) -> None:
        self._exempt = exempt
        self._sizes: dict[SlowConnection, int] = {}
        self._of_address: Counter[str] = Counter()

    def hold(self, slow: SlowConnection, size: int) -> None:
        """Count the bytes of a connection until they are read."""
        self.release(slow)
        self._sizes[slow] = size
        self._of_address[slow.address] += size
        if not self._exempt(slow.address):
            while self._of_address[slow.address] > ADDRESS_BYTES:
                self._drop(next(each for each in self._sizes if each.address == slow.address))
        while self._of_address.total() > TOTAL_BYTES:
            self._drop(next(iter(self._sizes)))

    def _drop(self, slow: SlowConnection) -> None:
        self.release(slow)
        slow.drop()

    def release(self, slow: SlowConnection) -> None:
        """Count them no longer; releasing them again does nothing."""
        size = self._sizes.pop(slow, 0)
        if size:
            self._of_address[slow.address] -= size
            if not self._of_address[slow.address]:
                del self._of_address[slow.address]
