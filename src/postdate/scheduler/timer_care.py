"""Look after the timers of schedules: one that does not fire when its rule says so is a problem."""

from collections.abc import Callable, Collection, Sequence
from datetime import datetime, timedelta
from typing import Final, Literal
from uuid import UUID

from postdate.audit.spec import SYSTEM
from postdate.core.instant import instant_text
from postdate.core.log import Log
from postdate.core.setting.setting import Settings
from postdate.database.connection.database import Connection, Database
from postdate.database.connection.off_loop import computed_each
from postdate.event.store.event import record_event
from postdate.runtime.clock_guard import STEP, node_time
from postdate.schedule.spec.expansion import next_due
from postdate.schedule.spec.timeline import Segment
from postdate.schedule.store import occurrence as occurrence_store
from postdate.schedule.store import schedule as store
from postdate.schedule.store.schedule import ScheduleRow
from postdate.scheduler.expansion import progress_of
from postdate.scheduler.meter import ScheduleMeter

log = Log()

SILENT: Final = timedelta(minutes=1)
"""A timer that is due for longer than this is a problem: its schedule is not expanded."""

AHEAD: Final = timedelta(minutes=2)
"""How far beyond what its rule says a timer may be: late occurrences come a minute apart."""

MAX_TAKEN_BACK: Final = 5000
"""Occurrences of the future that one transaction takes out of the book."""

TimerFault = Literal["lost", "ahead", "moved", "overdue"]
"""No timer; the book reaches into the future; a timer beyond the rule; overdue."""


class TimerCare:
    """Judges the timers that the audit comes by, puts back what it can, and marks the schedule."""

    def __init__(
        self,
        database: Database,
        settings: Settings,
        meter: ScheduleMeter,
        node_clock: Callable[[], datetime] = node_time,
    ) -> None:
        self._database = database
        self._settings = settings
        self._meter = meter
        self._node_clock = node_clock

    async def check(
        self,
        row: ScheduleRow,
        expected: datetime | None,
        due_at: datetime | None,
        now: datetime,
        silent: Collection[UUID],
    ) -> None:
        """Judge one timer, by its rule if that is known; `silent` are the schedules with a mark."""
        fault = self._fault(row, due_at, expected, now)
        if fault is None:
            if row.schedule_id in silent:
                await self._mark(row, None)
            return
        since = min(at for at in (expected, due_at, now) if at is not None)
        if row.schedule_id not in silent and await self._mark(row, since):
            self._meter.count_silent()
            log.error(
                "schedule.silent",
                schedule_id=str(row.schedule_id),
                fault=fault,
                due_at=None if due_at is None else instant_text(due_at),
                since=instant_text(since),
            )
        if fault == "ahead":
            if not self._is_behind(now):
                await self._put_back(row, now)
        elif fault != "overdue":
            await self._put_timer(row, due_at, expected or now)

    def _fault(
        self, row: ScheduleRow, due_at: datetime | None, expected: datetime | None, now: datetime
    ) -> TimerFault | None:
        # Nothing comes before the schedule was made, by whatever clock that was.
        if row.handled > max(now, row.created_at) + AHEAD or row.ended_at is not None:
            return "ahead"
        if due_at is None:
            return "lost"
        if expected is not None and due_at > max(expected, now) + AHEAD:
            return "moved"
        # What a restore has put in quarantine waits for a person.
        if now - due_at > SILENT and due_at > self._settings.floor:
            return "overdue"
        return None

    def _is_behind(self, now: datetime) -> bool:
        """Return whether this machine's clock says that the database's clock was set back.

        Then the book does not reach into the future, and what it says happened: decided again,
        occurrences would run that were skipped. The schedule goes on when the clock returns.
        """
        step = timedelta(seconds=self._settings.number(STEP))
        return self._node_clock() - now > step

    async def _mark(self, row: ScheduleRow, since: datetime | None) -> bool:
        async with self._database.write("audit.silent") as connection:
            return await store.mark_silent(connection, row.key, since)

    async def _put_timer(self, row: ScheduleRow, before: datetime | None, due_at: datetime) -> None:
        """Set a timer that is missing or wrong, unless it was changed meanwhile."""
        async with self._database.write("audit.timer") as connection:
            if await store.lock(connection, row.key) is None:
                return
            again = await store.load(connection, [row.key])
            known = (await store.timers(connection, [row.key])).get(row.schedule_id)
            if known == before and again == [row]:
                await store.put_timer(connection, row.key, due_at)

    async def _put_back(self, row: ScheduleRow, now: datetime) -> None:
        """Let a schedule that came further than the present go on from the present.

        The clock was ahead, and believed. What the book says of the future is taken back, except
        what became a job or a payment: that is made, and never again.
        """
        done = False
        while not done:
            async with self._database.write("audit.put_back") as connection:
                await store.lock(connection, row.key)
                again = await store.load(connection, [row.key])
                if not again or self._fault(again[0], now, None, now) != "ahead":
                    return
                done = await self._take_back(connection, again[0], now)

    async def _take_back(self, connection: Connection, row: ScheduleRow, now: datetime) -> bool:
        """Take some of the future back; return whether all of it is, and the schedule goes on."""
        taken = await occurrence_store.take_back(connection, row.key, now, MAX_TAKEN_BACK)
        stands_at = max(now, row.created_at)
        if done := len(taken) < MAX_TAKEN_BACK:
            await store.put_back(connection, row.key, stands_at)
            await store.put_timer(connection, row.key, stands_at)
        data: dict[str, object] = {
            "count": len(taken),
            "stood_at": row.handled,
            "stands_at": stands_at,
        }
        if taken:
            data |= {"first": taken[0], "last": taken[-1]}
        await record_event(connection, row.key[1:], "schedule.put_back", SYSTEM, data)
        log.error("schedule.put_back", schedule_id=str(row.schedule_id), count=len(taken))
        return done


async def expected_timers(
    judged: Sequence[tuple[ScheduleRow, Sequence[Segment] | None, datetime | None]], now: datetime
) -> dict[UUID, datetime | None]:
    """Return when each timer is due by its rule, computed where it seems late; None if unknown.

    Each is given with its segments, if they are known, and its timer.
    """
    expected: dict[UUID, datetime | None] = {}
    late = []
    for row, segments, due_at in judged:
        known = segments is not None and row.buffered_for is None
        on_time = due_at is not None and due_at <= now + AHEAD
        expected[row.schedule_id] = due_at if known and on_time else None
        if segments is not None and known and not on_time:
            late.append((row, segments))
    calls = [(segments, progress_of(row)) for row, segments in late]
    for (row, _), found in zip(late, await computed_each(next_due, calls), strict=True):
        if isinstance(found, Exception):
            log_unaudited(row, found)
        else:
            expected[row.schedule_id] = found
    return expected


def log_unaudited(row: ScheduleRow, error: Exception) -> None:
    """Log that a rule could not be computed: the expander meets it, and sets the schedule aside."""
    log.error("schedule.unaudited", schedule_id=str(row.schedule_id), exc_info=error)
