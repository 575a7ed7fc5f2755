"""Record outcomes in groups; a stale token changes nothing."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final
from uuid import UUID

import structlog

from postdate.model.tally import Tally
from postdate.model.verdict import End, Keep, Move, Verdict
from postdate.store import execution
from postdate.store.database import LOST, CommitUnknownError, Database
from postdate.worker.flight import Flight, Reach, pass_by

log = structlog.get_logger()

GROUP_MOST: Final = 500
"""The most outcomes of one commit."""

GROUPS_MOST: Final = 2
"""The most commits under way at once."""

PAUSE_SECONDS: Final = 0.1
PAUSE_MOST_SECONDS: Final = 2.0

Group = Sequence[tuple[Flight, Verdict]]
Landing = Callable[[Sequence[Flight]], None]
"""Told of flights whose record has begun, or is written."""


class Recorder:
    """Collect verdicts while commits are under way; each commit takes what has gathered.

    Repeating a commit whose end is unknown is harmless here: if it did happen, the leases are
    gone and the repetition changes nothing.
    """

    def __init__(
        self,
        database: Database,
        tally: Tally,
        begun: Landing,
        landed: Landing,
        reach: Reach = pass_by,
    ) -> None:
        self._database = database
        self._tally = tally
        self._begun = begun
        self._landed = landed
        self._reach = reach
        self._waiting: deque[tuple[Flight, Verdict]] = deque()
        self._active = 0
        self._running: set[asyncio.Task[None]] = set()

    def submit(self, flight: Flight, verdict: Verdict) -> None:
        """Have a verdict written soon; the flight lands when it is, or when its lease is lost."""
        flight.recording = True
        self._waiting.append((flight, verdict))
        if self._active < GROUPS_MOST:
            self._active += 1
            running = asyncio.create_task(self._drain())
            self._running.add(running)
            running.add_done_callback(self._running.discard)

    async def _drain(self) -> None:
        # One turn of the loop lets outcomes that came together gather into one group.
        await asyncio.sleep(0)
        try:
            while self._waiting:
                count = min(len(self._waiting), GROUP_MOST)
                group = [self._waiting.popleft() for _ in range(count)]
                self._begun([flight for flight, _ in group])
                await self._record(group)
        finally:
            # In the same step as the look at an empty queue: a verdict that comes before this
            # coroutine counts as done must find that nobody drains, or it would wait for ever.
            self._active -= 1

    async def _record(self, group: Group) -> None:
        pause = PAUSE_SECONDS
        while True:
            try:
                done = await self._write(group)
            except (CommitUnknownError, *LOST) as error:
                log.warning("record.delayed", count=len(group), error=str(error), pause=pause)
                await asyncio.sleep(pause)
                pause = min(pause * 2, PAUSE_MOST_SECONDS)
            except Exception as error:  # noqa: BLE001 - whatever it is, it belongs to one verdict
                await self._split(group, error)
                return
            else:
                self._land(group, done)
                return

    async def _write(self, group: Group) -> set[UUID]:
        await self._reach("record.before")
        verdicts: list[tuple[execution.Held, End | Move]] = []
        keeps: list[tuple[execution.Held, Keep]] = []
        for flight, verdict in group:
            if isinstance(verdict, Keep):
                keeps.append((flight.execution.held, verdict))
            else:
                verdicts.append((flight.execution.held, verdict))
        done = await execution.record(self._database, verdicts)
        if keeps:
            done |= (await execution.renew(self._database, keeps)).keys()
        await self._reach("record.after")
        return done

    async def _split(self, group: Group, error: Exception) -> None:
        """Find the one verdict that cannot be written: the others must not suffer for it."""
        if len(group) == 1:
            log.error("record.refused", job_id=str(group[0][0].key[0]), exc_info=error)
            self._land(group, set())
            return
        middle = len(group) // 2
        await self._record(group[:middle])
        await self._record(group[middle:])

    def _land(self, group: Group, done: set[UUID]) -> None:
        written: list[Verdict] = []
        for flight, verdict in group:
            if flight.execution.held.job_id in done:
                written.append(verdict)
            else:
                self._tally.lost()
                log.info("lease.lost", job_id=str(flight.key[0]), token=flight.key[1])
        self._tally.recorded(written)
        self._landed([flight for flight, _ in group])
