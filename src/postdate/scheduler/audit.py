"""Compare the book with what the rules say, and raise an alert that names the schedule."""

import random
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from itertools import islice, takewhile
from typing import Final
from uuid import UUID

from msgspec.structs import replace

from postdate.audit.spec import SYSTEM
from postdate.core.ids import BUCKETS, MIN_ID
from postdate.core.log import Log
from postdate.core.setting.setting import Settings
from postdate.database.connection import clock
from postdate.database.connection.database import Connection, Database
from postdate.database.connection.off_loop import computed_each
from postdate.event.store.event import record_event
from postdate.recurrence import zone
from postdate.recurrence.rule import Occurrence, Status
from postdate.runtime.clock_guard import node_time
from postdate.runtime.shared_read import SharedReads
from postdate.schedule.spec.schedule import identify, jitter
from postdate.schedule.spec.timeline import Segment, upcoming
from postdate.schedule.store import occurrence as occurrence_store
from postdate.schedule.store import schedule as store
from postdate.schedule.store import timeline
from postdate.schedule.store.occurrence import NewOccurrence, OccurrenceKey
from postdate.schedule.store.schedule import ScheduleKey, ScheduleRow
from postdate.scheduler.meter import ScheduleMeter
from postdate.scheduler.timer_care import TimerCare, expected_timers, log_unaudited

log = Log()

LIMIT: Final = 200
"""Schedules checked in one step."""

POLL_SECONDS: Final = 5.0
MAX_EXPECTED: Final = 500
"""Occurrences of one schedule checked in one step; the newest ones may have to wait."""

MAX_SILENT: Final = 10_000
"""Schedules that are known not to fire; beyond, some keep their mark a little longer."""

_START: Final = ScheduleKey(0, 0, MIN_ID)

ExpectedOccurrence = tuple[Segment, Occurrence]
"""An occurrence that the book must have, and the versions that decided about it."""


class Audit:
    """Continuously walks through all schedules, some in each step."""

    def __init__(
        self,
        database: Database,
        settings: Settings,
        meter: ScheduleMeter | None = None,
        reads: SharedReads | None = None,
        node_clock: Callable[[], datetime] = node_time,
    ) -> None:
        self._database = database
        self._reads = reads or SharedReads(database)
        self._settings = settings
        self._meter = meter or ScheduleMeter()
        self._care = TimerCare(database, settings, self._meter, node_clock)
        self._after = _START._replace(bucket=random.randrange(BUCKETS))

    async def run_once(self, limit: int = LIMIT) -> int:
        """Check up to `limit` schedules and return how many occurrences are missing."""
        missing = 0
        rows = await self._next(limit)
        if not rows:
            return 0
        async with self._database.connection() as connection:
            now = await clock.now(connection)
            begin = [(row, self._begin(row, now)) for row in rows]
            held = await timeline.load(connection, begin)
            timers = await store.timers(connection, [row.key for row in rows])
            marked = await store.list_silent(connection, MAX_SILENT)
            # Nodes with other tz data would move each other's timers back and forth.
            same_data = await store.tzdata(connection) in {None, zone.VERSION}
        silent = {each.schedule_id for each in marked}
        known = {key: found for key, found in held.items() if not isinstance(found, Exception)}
        books = await self._books(
            [(row, known[row.schedule_id]) for row in rows if row.schedule_id in known], now
        )
        judged = [
            (row, known.get(row.schedule_id) if same_data else None, timers.get(row.schedule_id))
            for row in rows
        ]
        expected = await expected_timers(judged, now)
        for row, _, due_at in judged:
            if book := books.get(row.schedule_id):
                missing += await self._look(row, known[row.schedule_id], book, now)
            await self._care.check(row, expected[row.schedule_id], due_at, now, silent)
        return missing

    async def _books(
        self, rows: Sequence[tuple[ScheduleRow, Sequence[Segment]]], now: datetime
    ) -> dict[UUID, list[ExpectedOccurrence]]:
        """Return what the book of each must have; of the future nothing is expected."""
        calls = [
            (replace(row, handled=min(row.handled, now)), segments, self._begin(row, now))
            for row, segments in rows
        ]
        found = {}
        results = await computed_each(expected_in_book, calls)
        for (row, _), expected in zip(rows, results, strict=True):
            if isinstance(expected, Exception):
                log_unaudited(row, expected)
            else:
                found[row.schedule_id] = expected
        return found

    def _begin(self, row: ScheduleRow, now: datetime) -> datetime:
        hours = self._settings.number("schedule.audit_hours", row.tenant_id)
        return max(now - timedelta(hours=hours), row.created_at)

    async def step(self, limit: int = LIMIT) -> int:
        """Run once, then always pause: the audit is never urgent."""
        await self.run_once(limit)
        return 0

    async def _next(self, limit: int) -> list[ScheduleRow]:
        """Return the schedules after those of the last step, and at the end begin again."""
        before = self._after
        rows = await store.walk(self._reads, before, limit)
        if len(rows) < limit and before > _START:
            first = await store.walk(self._reads, _START, limit - len(rows))
            rows += [row for row in first if row.key <= before]
        self._after = rows[-1].key if rows else _START
        return rows

    async def _look(
        self,
        row: ScheduleRow,
        segments: Sequence[Segment],
        expected: Sequence[ExpectedOccurrence],
        now: datetime,
    ) -> int:
        begin = self._begin(row, now)
        async with self._database.connection() as connection:
            missing = await missing_from_book(connection, row, expected)
        if not missing:
            return 0
        # Found without a lock: check again with it before reporting anything.
        async with self._database.write("audit.missed") as connection:
            if await store.lock(connection, row.key) != row.version:
                return 0
            # A calendar that was uploaded meanwhile applies only to later occurrences.
            if await timeline.load_segments(connection, row, begin) != segments:
                return 0
            missing = await missing_from_book(connection, row, missing)
            await self._alert(connection, row, missing, now)
        return len(missing)

    async def _alert(
        self,
        connection: Connection,
        row: ScheduleRow,
        missing: Sequence[ExpectedOccurrence],
        now: datetime,
    ) -> None:
        if not missing:
            return
        await occurrence_store.insert(connection, [_row(row, *each) for each in missing])
        await store.missed(connection, row.key, now)
        first, last = missing[0][1], missing[-1][1]
        span = {"first": first.scheduled_for, "last": last.scheduled_for}
        data = {"count": len(missing), "found_by": "audit", **span}
        await record_event(connection, row.key[1:], "schedule.missed", SYSTEM, data)
        self._meter.count_missing(len(missing))
        log.error("schedule.missed", schedule_id=str(row.schedule_id), **_texts(data))


def expected_in_book(
    row: ScheduleRow, held: Sequence[Segment], begin: datetime
) -> list[ExpectedOccurrence]:
    """Return the occurrences that the book must have, by the versions in force at the time."""
    past = takewhile(lambda each: each[1].scheduled_for <= row.handled, upcoming(held, begin))
    return list(islice((each for each in past if _judged(each[0])), MAX_EXPECTED))


def _judged(segment: Segment) -> bool:
    """Return whether past occurrences can be computed from a segment.

    They cannot if the calendar was deleted with its versions, or if the version reached its
    `max_runs` before another took over.
    """
    rule = segment.plan.rule
    if rule.calendar is not None and segment.plan.calendar is None:
        return False
    return rule.max_runs is None or segment.until is None


async def missing_from_book(
    connection: Connection, row: ScheduleRow, expected: Sequence[ExpectedOccurrence]
) -> list[ExpectedOccurrence]:
    """Return those of the expected occurrences that the book does not have."""
    keys = [OccurrenceKey(*row.key, identify(row.schedule_id, each)) for _, each in expected]
    known = await occurrence_store.find(connection, keys)
    return [
        each
        for each, key in zip(expected, keys, strict=True)
        if (row.schedule_id, key.occurrence_id) not in known
    ]


def _row(row: ScheduleRow, segment: Segment, occurrence: Occurrence) -> NewOccurrence:
    shift = jitter(row.schedule_id, segment.definition.policies.jitter_seconds)
    return NewOccurrence(
        *row.key,
        occurrence_id=identify(row.schedule_id, occurrence),
        scheduled_for=occurrence.scheduled_for,
        nominal_local=occurrence.nominal_local,
        due_at=occurrence.scheduled_for + shift,
        status=(occurrence.skip or Status.MISSED).value,
        cause="rule",
        version=segment.version,
        notes=" ".join((*occurrence.notes, "found_by_audit")),
    )


def _texts(data: dict[str, object]) -> dict[str, str]:
    return {name: str(value) for name, value in data.items()}
