"""New tz data: compute the next occurrences again, and report the moved ones."""

from datetime import datetime
from itertools import groupby
from typing import Final

from postdate.audit.spec import SYSTEM
from postdate.core.ids import MIN_ID
from postdate.core.instant import instant_text
from postdate.core.log import Log
from postdate.database.connection import clock
from postdate.database.connection.database import Connection, Database
from postdate.database.connection.error import LockNotAvailableError
from postdate.database.connection.off_loop import computed
from postdate.event.store.event import record_event
from postdate.recurrence import zone
from postdate.schedule.spec.expansion import next_due
from postdate.schedule.store import schedule as store
from postdate.schedule.store import timeline
from postdate.schedule.store.schedule import ScheduleKey, ScheduleRow
from postdate.scheduler.expansion import progress_of
from postdate.scheduler.meter import ScheduleMeter

log = Log()

PAGE: Final = 200
"""Schedules of one transaction."""

POLL_SECONDS: Final = 600.0
IMPATIENT: Final = "SET LOCAL lock_timeout = '50ms'"
"""Maximum schedules of one transaction, which may have to wait for locks of others."""


class HeldError(Exception):
    """Some schedules were locked; all others were recomputed."""


class Recompute:
    """Runs when a node starts and periodically; the first node with newer data does the work."""

    def __init__(
        self, database: Database, meter: ScheduleMeter | None = None, version: str = zone.VERSION
    ) -> None:
        self._database = database
        self._meter = meter or ScheduleMeter()
        self._version = version
        self._held = 0

    async def run_once(self, _: int = 1) -> int:
        """Move every timer that the new data moves; return how many schedules moved."""
        async with self._database.connection() as connection:
            known = await store.tzdata(connection)
        moved = 0
        if known is not None:
            # Nodes with older data leave the timers alone: releases sort by name, as 2026a, 2026b.
            if known >= self._version:
                return 0
            self._held = 0
            moved = await self._all()
            if self._held:
                # The others are done; the loop comes back for these in a moment.
                raise HeldError(f"{self._held} schedules are locked by other transactions")
            log.warning("schedule.tzdata", before=known, after=self._version, moved=moved)
            self._meter.recomputed(moved)
        async with self._database.write("recompute.tzdata") as connection:
            await store.put_tzdata(connection, self._version)
        return 0

    async def _all(self) -> int:
        moved, after = 0, ScheduleKey(0, 0, MIN_ID)
        while True:
            async with self._database.connection() as connection:
                rows = await store.walk(connection, after, PAGE)
            for _, together in groupby(rows, key=lambda row: row.bucket):
                async with self._database.write("recompute") as connection:
                    await connection.execute(IMPATIENT)
                    for row in together:
                        moved += await self._around_held(connection, row)
            if len(rows) < PAGE:
                return moved
            after = rows[-1].key

    async def _around_held(self, connection: Connection, row: ScheduleRow) -> bool:
        try:
            async with connection.transaction():
                return await self._one(connection, row)
        except LockNotAvailableError:
            log.warning("schedule.held", schedule_id=str(row.schedule_id))
            self._held += 1
            return False

    async def _one(self, connection: Connection, row: ScheduleRow) -> bool:
        if row.buffered_for is not None:
            return False
        if await store.lock(connection, row.key) != row.version:
            return False
        now = await clock.now(connection)
        before = (await store.timers(connection, [row.key])).get(row.schedule_id)
        # The expander handles what is already due, using the new data.
        if before is None or before <= now:
            return False
        [current] = await store.load(connection, [row.key])
        after = await _next_due(connection, current)
        if after == before or after is None:
            return False
        await store.put_timer(connection, row.key, after)
        await self._report(connection, row, before, after)
        return True

    async def _report(
        self, connection: Connection, row: ScheduleRow, before: datetime, after: datetime
    ) -> None:
        data = {"tzdata": self._version, "before": before, "after": after}
        await record_event(connection, row.key[1:], "schedule.recomputed", SYSTEM, data)
        log.warning(
            "schedule.recomputed",
            schedule_id=str(row.schedule_id),
            before=instant_text(before),
            after=instant_text(after),
        )


async def _next_due(connection: Connection, row: ScheduleRow) -> datetime | None:
    """Compute a timer; a schedule that cannot be expanded is left to the expander."""
    held = (await timeline.load(connection, [(row, row.handled)]))[row.schedule_id]
    if isinstance(held, Exception) or held[-1].plan.rule.every_seconds is not None:
        return None
    try:
        return await computed(None, next_due, held, progress_of(row))
    except Exception:
        log.exception("schedule.not_recomputed", schedule_id=str(row.schedule_id))
        return None
