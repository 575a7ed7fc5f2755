"""Compare the book with what the rules say, and raise an alert that names the schedule."""

import random
from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import islice, takewhile
from typing import Final
from uuid import UUID

import structlog

from postdate.model.ids import BUCKETS, new_id
from postdate.model.recurrence import occurrences
from postdate.model.schedule import Definition, Occurrence, Status, identify, jitter
from postdate.model.schedule_rules import plan_of
from postdate.model.setting import Settings
from postdate.scheduler.batch import Calendars, find_calendar, named_calendars, read
from postdate.scheduler.meter import Meter
from postdate.store import calendar as calendar_store
from postdate.store import event as event_store
from postdate.store import occurrence as occurrence_store
from postdate.store import schedule as store
from postdate.store.database import Connection, Database
from postdate.store.event import NewEvent
from postdate.store.occurrence import NewOccurrence, OccurrenceKey
from postdate.store.schedule import ScheduleRow

log = structlog.get_logger()

LIMIT: Final = 200
"""Schedules looked at in one step."""

POLL_SECONDS: Final = 5.0
EXPECTED_MOST: Final = 500
"""Occurrences of one schedule looked at in one step; the newest of a busy one may wait."""

OVERDUE: Final = timedelta(minutes=5)
"""A timer that is due for longer than this is an alert: nobody expands schedules."""

_START: Final = (0, UUID(int=0))


class Audit:
    """Walks through all schedules, some in each step, again and again."""

    def __init__(self, database: Database, settings: Settings, meter: Meter | None = None) -> None:
        self._database = database
        self._settings = settings
        self._meter = meter or Meter()
        self._bucket = random.randrange(BUCKETS)
        self._after = _START

    async def run_once(self, limit: int = LIMIT) -> int:
        """Look at up to `limit` schedules and say how many occurrences are missing."""
        missing = 0
        rows = await self._next(limit)
        if not rows:
            return 0
        async with self._database.writer.acquire() as connection:
            now = await store.now(connection)
            due, _ = read(rows)
            calendars = await calendar_store.find(connection, named_calendars(due))
            timers = await store.timers(connection, [row.key for row in rows])
        for each in due:
            missing += await self._look(each, calendars, now)
            await self._look_timer(each[0], timers.get(each[0].schedule_id), now)
        return missing

    async def step(self, limit: int = LIMIT) -> int:
        """Run once and rest, whatever was found: an audit is never in a hurry."""
        await self.run_once(limit)
        return 0

    async def _next(self, limit: int) -> list[ScheduleRow]:
        rows: list[ScheduleRow] = []
        async with self._database.writer.acquire() as connection:
            for _ in range(BUCKETS):
                left = limit - len(rows)
                found = await store.walk(connection, self._bucket, self._after, left)
                rows += found
                if len(found) == left:
                    self._after = found[-1].tenant_id, found[-1].schedule_id
                    break
                self._bucket, self._after = (self._bucket + 1) % BUCKETS, _START
        return rows

    async def _look(
        self, due: tuple[ScheduleRow, Definition], calendars: Calendars, now: datetime
    ) -> int:
        row = due[0]
        expected = self._expected(due, calendars, now)
        if not expected:
            return 0
        async with self._database.writer.acquire() as connection:
            missing = await _missing(connection, row, expected)
        if not missing:
            return 0
        # Looked at without a lock: look again with it before anything is claimed.
        async with self._database.write() as connection:
            if await store.lock(connection, row.key) != row.version:
                return 0
            missing = await _missing(connection, row, missing)
            await self._alert(connection, due, missing, now)
        return len(missing)

    def _expected(
        self, due: tuple[ScheduleRow, Definition], calendars: Calendars, now: datetime
    ) -> list[Occurrence]:
        row, definition = due
        hours = self._settings.number("schedule.audit_hours", row.tenant_id)
        calendar = find_calendar(due, calendars)
        begin = max(now - timedelta(hours=hours), row.version_at)
        if definition.rule.calendar is not None and calendar is None:
            return []
        coming = occurrences(plan_of(definition, calendar), begin)
        past = takewhile(lambda each: each.scheduled_for <= row.handled, coming)
        return list(islice(past, EXPECTED_MOST))

    async def _alert(
        self,
        connection: Connection,
        due: tuple[ScheduleRow, Definition],
        missing: Sequence[Occurrence],
        now: datetime,
    ) -> None:
        if not missing:
            return
        row, definition = due
        shift = jitter(row.schedule_id, definition.policies.jitter_seconds)
        rows = [
            NewOccurrence(
                *row.key,
                occurrence_id=identify(row.schedule_id, each),
                scheduled_for=each.scheduled_for,
                nominal_local=each.nominal_local,
                due_at=each.scheduled_for + shift,
                status=(each.skip or Status.MISSED).value,
                cause="rule",
                version=row.version,
                notes=" ".join((*each.notes, "found_by_audit")),
            )
            for each in missing
        ]
        await occurrence_store.insert(connection, rows)
        await store.missed(connection, row.key, now)
        span = {"first": missing[0].scheduled_for, "last": missing[-1].scheduled_for}
        data = {"count": len(missing), "found_by": "audit", **span}
        event_id = new_id(row.bucket, self._database.unix_ms())
        event = NewEvent(*row.key, event_id, "schedule.missed", "system", data)
        await event_store.insert(connection, [event])
        self._meter.missing(len(missing))
        log.error("schedule.missed", schedule_id=str(row.schedule_id), **_texts(data))

    async def _look_timer(self, row: ScheduleRow, due_at: datetime | None, now: datetime) -> None:
        """Put back a timer that is gone; only say so where it is there and nobody comes."""
        if due_at is not None and now - due_at < OVERDUE:
            return
        if due_at is None:
            async with self._database.write() as connection:
                if await store.lock(connection, row.key) is None:
                    return
                again = await store.load(connection, [row.key])
                known = await store.timers(connection, [row.key])
                if known or not again or again[0].ended_at is not None:
                    return
                await store.put_timer(connection, row.key, now)
        self._meter.repaired()
        log.error(
            "schedule.timer_lost" if due_at is None else "schedule.overdue",
            schedule_id=str(row.schedule_id),
            due_at=None if due_at is None else due_at.isoformat(),
        )


async def _missing(
    connection: Connection, row: ScheduleRow, expected: Sequence[Occurrence]
) -> list[Occurrence]:
    keys = [OccurrenceKey(*row.key, identify(row.schedule_id, each)) for each in expected]
    known = await occurrence_store.find(connection, keys)
    return [
        each
        for each, key in zip(expected, keys, strict=True)
        if (row.schedule_id, key.occurrence_id) not in known
    ]


def _texts(data: dict[str, object]) -> dict[str, str]:
    return {name: str(value) for name, value in data.items()}
