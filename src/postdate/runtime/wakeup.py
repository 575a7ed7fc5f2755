"""Wake-ups between processes: hints only, so that polling can be slow. Polling is the truth."""

import asyncio
import re
import time
from collections.abc import Callable, Collection
from typing import Final

from postdate.core.log import Log
from postdate.database.connection import wakeup as store
from postdate.database.connection.database import Database
from postdate.database.connection.error import DatabaseError
from postdate.runtime.loop import POLL_SECONDS

log = Log()

GATHER_SECONDS: Final = 0.05
"""At most one notification in this time: each one wakes every node."""

MAX_LANES: Final = 400
"""More lanes than this are told as "any": a notification carries less than 8,000 bytes."""

RECONNECT_SECONDS: Final = 1.0

HEARD_PER_SECOND: Final = 10_000
HEARD_CHARACTERS_PER_SECOND: Final = 1_000_000
FLOODED_SECONDS: Final = 5.0
"""With more notifications than this the connection is closed for a while: polling is the truth."""

_LANE: Final = re.compile(r"[0-9]{1,18}")

Wake = Callable[[int | None], None]
"""Called with a lane in which something is due soon; None means that it may be any."""


class Wakeup:
    """Sends hints of this process to the others, and passes theirs on to its loops."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lanes: set[int] = set()
        self._gathered = asyncio.Event()
        self.listeners: list[Wake] = []
        # Hints of others that are passed on together; None stands for any lane.
        self._heard: set[int | None] = set()
        self._allowance = _HintAllowance()

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
            pause = RECONNECT_SECONDS
            try:
                async with self._database.connection() as connection:
                    flooded = await store.listen(connection, self._listening, self._on_notification)
                    if flooded:
                        log.warning("wakeup.flooded", pause_seconds=FLOODED_SECONDS)
                        pause = FLOODED_SECONDS
            except DatabaseError as error:
                log.debug("wakeup.not_heard", error=str(error))
            await asyncio.sleep(pause)

    def _listening(self) -> None:
        """Wake everything, because hints may have been missed while the listener was gone."""
        self._gather({None})

    def _on_notification(self, text: str) -> bool:
        """Take a hint; return True when there are too many to listen on."""
        if not self._allowance.admits(len(text), time.monotonic()):
            return True
        self._gather(_lanes(text))
        return False

    def _gather(self, lanes: Collection[int | None]) -> None:
        """Pass hints on once for all that have arrived by now."""
        if not self._heard:
            asyncio.get_running_loop().call_soon(self._pass_on)
        if len(self._heard) < MAX_LANES:
            self._heard.update(lanes)
        else:
            self._heard.add(None)

    def _pass_on(self) -> None:
        heard, self._heard = self._heard, set()
        for lane_id in [None] if None in heard else heard:
            for wake in self.listeners:
                wake(lane_id)


class _HintAllowance:
    """Counts the notifications of the current second."""

    def __init__(self) -> None:
        self._until = 0.0
        self._count = 0
        self._characters = 0

    def admits(self, characters: int, now: float) -> bool:
        """Count a notification; return False when there are too many, or too long ones."""
        if now >= self._until:
            self._until, self._count, self._characters = now + 1.0, 0, 0
        self._count += 1
        self._characters += characters
        return self._count <= HEARD_PER_SECOND and self._characters <= HEARD_CHARACTERS_PER_SECOND


def _lanes(text: str) -> list[int | None]:
    """Read the lanes of a notification; whatever else it says means any lane."""
    given = text.split(",", MAX_LANES)
    known = len(given) <= MAX_LANES and all(map(_LANE.fullmatch, given))
    return [int(lane) for lane in given] if known else [None]
