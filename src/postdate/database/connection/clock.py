"""The database's time: asked for, and as this process knows it between two answers."""

import time
from datetime import datetime
from typing import Final

from postdate.database.connection.query import Reader, query


async def now(reader: Reader) -> datetime:
    """Return the database's time."""
    return await reader.fetchval(query("clock_now"))


class NodeClock:
    """Learns the database's time now and then; the monotonic clock carries it on in between."""

    def __init__(self) -> None:
        self._epoch = 0.0

    def learn(self, unix_seconds: float, asked_at: float) -> None:
        """Note what the database answered just now to what it was asked at that time."""
        self._epoch = unix_seconds - (asked_at + time.monotonic()) / 2

    def unix_ms(self) -> int:
        """Return the present in milliseconds: for ids, never for a decision."""
        return int((self._epoch + time.monotonic()) * 1000)


node_clock: Final = NodeClock()
"""The one of this process: its pools all lead to one database."""
