"""Wake-ups between processes: hints only, so that polling can be slow. Polling is the truth."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from postdate.model.log import Log
from postdate.runtime.loop import POLL_SECONDS
from postdate.store.connection import wakeup as store
from postdate.store.connection.database import Database
from postdate.store.connection.error import DatabaseError

log = Log()

GATHER_SECONDS: Final = 0.05
"""At most one notification in this time: each one wakes every node."""

MAX_LANES: Final = 400
"""More lanes than this are told as "any": a notification carries less than 8,000 bytes."""

RECONNECT_SECONDS: Final = 1.0

Wake = Callable[[int | None], None]
"""Called with a lane in which something is due soon; None means that it may be any."""


class Wakeup:
    """Sends hints of this process to the others, and passes theirs on to its loops."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lanes: set[int] = set()
        self._gathered = asyncio.Event()
        self.listeners: list[Wake] = []

    def hint(self, lane_id: int, seconds: float) -> None:
        """Record that a lane has something due in some seconds; only short delays are sent."""
        if seconds <= POLL_SECONDS and lane_id >= 0:
            self._lanes.add(lane_id)
            self._gathered.set()

    async def send(self, _: int = 1) -> int:
        """Send the gathered hints to the other processes, in a separate statement."""
        if not self._lanes:
            return 0
        lanes, self._lanes = self._lanes, set()
        text = ",".join(map(str, sorted(lanes))) if len(lanes) <= MAX_LANES else "*"
        async with self._database.connection() as connection:
            await store.send(connection, text)
        return len(lanes)

    async def run(self) -> None:
        """Send and listen until cancelled; a lost hint costs one polling interval."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._send_all())
            group.create_task(self._listen_all())

    async def _send_all(self) -> None:
        while True:
            await self._gathered.wait()
            self._gathered.clear()
            try:
                await self.send()
            except DatabaseError as error:
                log.debug("wakeup.not_sent", error=str(error))
            await asyncio.sleep(GATHER_SECONDS)

    async def _listen_all(self) -> None:
        while True:
            try:
                async with self._database.connection() as connection:
                    await store.listen(connection, self._listening, self._on_notification)
            except DatabaseError as error:
                log.debug("wakeup.not_heard", error=str(error))
            await asyncio.sleep(RECONNECT_SECONDS)

    def _listening(self) -> None:
        """Wake everything, because hints sent while nobody listened may be due already."""
        self._pass_on([None])

    def _on_notification(self, text: str) -> None:
        self._pass_on(int(lane) if lane.isdigit() else None for lane in text.split(","))

    def _pass_on(self, lanes: Iterable[int | None]) -> None:
        for lane_id in lanes:
            for wake in self.listeners:
                wake(lane_id)
