"""The database's time as this process knows it: for ids, never for a decision."""

import time
from typing import Final


class NodeClock:
    """Learns the database's time now and then; the monotonic clock carries it on in between."""

    def __init__(self) -> None:
        self._epoch = 0.0

    def learn(self, unix_seconds: float, asked_at: float) -> None:
        """Note what the database answered just now to what it was asked at that time."""
        self._epoch = unix_seconds - (asked_at + time.monotonic()) / 2

    def unix_ms(self) -> int:
        """Return the present in milliseconds."""
        return int((self._epoch + time.monotonic()) * 1000)


node_clock: Final = NodeClock()
"""The one of this process: its pools all lead to one database."""
