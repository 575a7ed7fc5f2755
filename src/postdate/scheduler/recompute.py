"""New tz data: compute the next occurrences again, and report those that moved."""

from datetime import datetime
from typing import Final
from uuid import UUID

import structlog

from postdate.model import zone
from postdate.model.expansion import next_due
from postdate.model.ids import BUCKETS, new_id
from postdate.model.schedule_rules import plan_of
from postdate.scheduler.batch import (
    Calendars,
    Due,
    find_calendar,
    named_calendars,
    progress_of,
    read,
)
from postdate.scheduler.meter import Meter
from postdate.store import calendar as calendar_store
from postdate.store import event as event_store
from postdate.store import schedule as store
from postdate.store.database import Connection, Database
from postdate.store.event import NewEvent

log = structlog.get_logger()

PAGE: Final = 200
"""Schedules of one transaction."""

POLL_SECONDS: Final = 600.0


class Recompute:
    """Runs when a node starts, and now and then: the first with newer data does the work."""

    def __init__(
        self, database: Database, meter: Meter | None = None, version: str = zone.VERSION
    ) -> None:
        self._database = database
        self._meter = meter or Meter()
        self._version = version

    async def run_once(self, _: int = 1) -> int:
        """Move every timer that the new data moves; give how many schedules that were."""
        async with self._database.writer.acquire() as connection:
            known = await store.tzdata(connection)
        moved = 0
        if known is not None:
            # Nodes with older data leave the timers alone: releases sort by name, as 2026a, 2026b.
            if known >= self._version:
                return 0
            for bucket in range(BUCKETS):
                moved += await self._bucket(bucket)
            log.warning("schedule.tzdata", before=known, after=self._version, moved=moved)
            self._meter.recomputed(moved)
        async with self._database.write() as connection:
            await store.put_tzdata(connection, self._version)
        return 0

    async def _bucket(self, bucket: int) -> int:
        moved, after = 0, (0, UUID(int=0))
        while True:
            async with self._database.write() as connection:
                rows = await store.walk(connection, bucket, after, PAGE)
                due, _ = read(rows)
                calendars = await calendar_store.find(connection, named_calendars(due))
                for each in due:
                    moved += await self._one(connection, each, calendars)
            if len(rows) < PAGE:
                return moved
            after = rows[-1].tenant_id, rows[-1].schedule_id

    async def _one(self, connection: Connection, due: Due, calendars: Calendars) -> bool:
        row, definition = due
        if definition.rule.every_seconds is not None or row.buffered_for is not None:
            return False
        if await store.lock(connection, row.key) != row.version:
            return False
        now = await store.now(connection)
        before = (await store.timers(connection, [row.key])).get(row.schedule_id)
        # What is due already is the expander's, which computes with the new data itself.
        if before is None or before <= now:
            return False
        [current] = await store.load(connection, [row.key])
        plan = plan_of(definition, find_calendar(due, calendars))
        after = next_due(plan, definition.policies, progress_of(current))
        if after == before or after is None:
            return False
        await store.put_timer(connection, row.key, after)
        await self._report(connection, due, before, after)
        return True

    async def _report(
        self, connection: Connection, due: Due, before: datetime, after: datetime
    ) -> None:
        row, _ = due
        data = {"tzdata": self._version, "before": before, "after": after}
        event_id = new_id(row.bucket, self._database.unix_ms())
        event = NewEvent(*row.key, event_id, "schedule.recomputed", "system", data)
        await event_store.insert(connection, [event])
        log.warning(
            "schedule.recomputed",
            schedule_id=str(row.schedule_id),
            before=before.isoformat(),
            after=after.isoformat(),
        )
