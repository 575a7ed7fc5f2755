"""Expand due schedules: occurrences, their jobs or payments and the next timers in one commit."""

import asyncio
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

import asyncpg
import structlog

from postdate.model.errors import Refusal
from postdate.model.firing import Fired
from postdate.model.ids import BUCKETS, new_id
from postdate.model.schedule import Overlap
from postdate.model.setting import Settings
from postdate.scheduler.batch import Batch, named_calendars, read
from postdate.scheduler.firer import Firer, Follow, Spans, unfollowed
from postdate.scheduler.meter import Meter
from postdate.store import calendar as calendar_store
from postdate.store import event as event_store
from postdate.store import occurrence as occurrence_store
from postdate.store import schedule as store
from postdate.store import timer as timer_store
from postdate.store.database import Connection, Database
from postdate.store.event import NewEvent
from postdate.store.schedule import DueTimer, ScheduleKey
from postdate.store.timer import LANE_SCHEDULE, LONG_AGO

log = structlog.get_logger()

BATCH_MOST: Final = 500
"""Schedules of one commit, all of one bucket."""

LIMIT: Final = 2000
"""Schedules of one step, over all buckets."""

AT_ONCE: Final = 2
"""Buckets expanded at the same time."""

BEHIND: Final = timedelta(seconds=10)
"""How far the low-water mark stays behind the present: a commit may take that long."""

FORGET_SECONDS: Final = 30.0


@dataclass(slots=True)
class _Budget:
    """How many schedules one step may still expand."""

    left: int

    def take(self, most: int) -> int:
        taken = min(most, self.left)
        self.left -= taken
        return taken


class Expander:
    """One expander; any number of them may run, in any number of processes."""

    def __init__(
        self,
        database: Database,
        firer: Firer,
        meter: Meter | None = None,
        settings: Settings | None = None,
        follow: Follow = unfollowed,
    ) -> None:
        self._database = database
        self._follow = follow
        self._firer = firer
        self._meter = meter or Meter()
        self._settings = settings or Settings()
        self._lows = [LONG_AGO] * BUCKETS
        self._forget_at = 0.0
        self._floor = LONG_AGO

    async def run_once(self, limit: int = LIMIT) -> int:
        """Expand up to `limit` due schedules and say how many."""
        due = iter(await self._due_buckets())
        budget = _Budget(limit)
        # While the database writes one bucket, the next is decided.
        ended = await asyncio.gather(
            *(self._work(due, budget) for _ in range(AT_ONCE)), return_exceptions=True
        )
        # What one bucket suffers from holds up no other, but is not kept quiet either.
        for error in ended:
            if isinstance(error, BaseException):
                raise error
        return limit - budget.left

    async def _work(self, due: Iterator[int], budget: _Budget) -> None:
        for bucket in due:
            more = True
            while more and budget.left > 0:
                wanted = budget.take(BATCH_MOST)
                done = await self._expand(bucket, wanted)
                budget.left += wanted - done
                more = done == wanted

    async def next_due(self) -> float | None:
        """Give the seconds until the next schedule is due, by the database's clock."""
        async with self._database.writer.acquire() as connection:
            heads = await timer_store.heads(connection, self._places())
        return min((head.seconds for head in heads), default=None)

    def _places(self) -> list[tuple[int, int, datetime]]:
        now = time.monotonic()
        floor = self._settings.floor
        if now >= self._forget_at or floor < self._floor:
            self._lows = [LONG_AGO] * BUCKETS
            self._forget_at = now + FORGET_SECONDS
        self._floor = floor
        return [(bucket, LANE_SCHEDULE, max(floor, low)) for bucket, low in enumerate(self._lows)]

    async def _due_buckets(self) -> list[int]:
        async with self._database.writer.acquire() as connection:
            heads = await timer_store.heads(connection, self._places())
        due = [head.bucket for head in heads if head.seconds <= 0]
        # Nodes that begin at different buckets seldom meet.
        random.shuffle(due)
        return due

    async def _expand(self, bucket: int, limit: int) -> int:
        try:
            with self._follow(bucket) as spans:
                return await self._once(bucket, limit, spans)
        except asyncpg.UniqueViolationError as error:
            # The book has one of them already, after a clock was set back for example. The
            # quick way does not look; this one does.
            log.warning("schedule.known", bucket=bucket, error=str(error))
            with self._follow(bucket) as spans:
                return await self._once(bucket, limit, spans, look=True)

    async def _once(self, bucket: int, limit: int, spans: Spans, *, look: bool = False) -> int:
        async with self._database.write() as connection:
            low = max(self._settings.floor, self._lows[bucket])
            timers = await store.due(connection, bucket, low, limit)
            if not timers:
                return 0
            batch = await self._decide(connection, bucket, timers)
            if look:
                batch.drop(await occurrence_store.find(connection, batch.keys()))
            await self._firer.cancel(connection, batch.cancelled())
            firings = spans.begin(batch.firings())
            fired = await self._firer.fire(connection, firings, batch.now)
            statuses = await self._write(connection, batch, fired)
        if len(timers) < limit:
            self._lows[bucket] = max(self._lows[bucket], batch.now - BEHIND)
        spans.end(fired)
        self._firer.tell(fired)
        self._meter.expanded(statuses, [(t.at - t.due_at).total_seconds() for t in timers])
        for _ in batch.aside:
            self._meter.broke()
        return len(timers)

    async def _decide(
        self, connection: Connection, bucket: int, timers: Sequence[DueTimer]
    ) -> Batch:
        keys = [ScheduleKey(bucket, timer.tenant_id, timer.schedule_id) for timer in timers]
        rows = await store.load(connection, keys)
        await self._forget_orphans(connection, keys, {row.schedule_id for row in rows})
        due, broken = read(rows)
        calendars = await calendar_store.find(connection, named_calendars(due))
        watched = [
            row.last_id
            for row, definition in due
            if row.last_id is not None and definition.policies.overlap is not Overlap.ALLOW
        ]
        running = await store.running(connection, watched)
        batch = Batch(timers[0].at, aside=broken)
        for each in due:
            batch.add(each, calendars, running)
        return batch

    async def _forget_orphans(
        self, connection: Connection, keys: Sequence[ScheduleKey], known: set[UUID]
    ) -> None:
        """Take away timers whose schedule is gone; deleting one takes both, so there are none."""
        orphans = [(key.bucket, key.schedule_id, None) for key in keys if key[2] not in known]
        await store.move_timers(connection, orphans)

    async def _write(
        self, connection: Connection, batch: Batch, fired: Sequence[Fired | Refusal]
    ) -> list[str]:
        new, changed = batch.rows(fired)
        await occurrence_store.insert(connection, new)
        await occurrence_store.relabel(connection, changed)
        await store.advance(connection, batch.advances())
        await store.move_timers(connection, batch.timers())
        unix_ms = self._database.unix_ms()
        events = [
            NewEvent(
                row.bucket,
                row.tenant_id,
                row.schedule_id,
                new_id(row.bucket, unix_ms),
                kind,
                "system",
                data,
            )
            for row, kind, data in batch.notices()
        ]
        await event_store.insert(connection, events)
        return [row.status for row in new]
