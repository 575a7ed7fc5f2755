"""Business calendars: upload and delete them; schedules that use one are recomputed."""

import re
from datetime import datetime
from typing import Final

from postdate.calendar import store
from postdate.calendar.store import CalendarRow
from postdate.core.identity import Identity
from postdate.core.log import Log
from postdate.database.connection import clock
from postdate.database.connection.database import Connection, Database
from postdate.database.connection.off_loop import computed
from postdate.event.store.event import named, record_event
from postdate.intake.create_once import Remember, forget
from postdate.recurrence.calendar import Calendar
from postdate.schedule.change.schedule import locked
from postdate.schedule.spec.expansion import ExpansionProgress, next_up
from postdate.schedule.spec.spec import MAX_HOLIDAYS
from postdate.schedule.store import schedule as schedule_store
from postdate.schedule.store import timeline
from postdate.schedule.store.schedule import ScheduleRow
from postdate.words.error import Code, not_found, refuse

log = Log()

MAX_FOLLOWERS: Final = 1000
"""The most schedules whose next occurrence is moved at once by a change of their calendar."""

COMPUTED_AT_ONCE: Final = 10
"""So many of them are moved in the transaction of the change; it holds all of them meanwhile."""

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,62}")
_ALL_DAYS: Final = 7


class Calendars:
    """Write calendars."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def put(
        self, actor: Identity, calendar: Calendar, remember: Remember[CalendarRow] = forget
    ) -> CalendarRow:
        """Upload a calendar; it applies to occurrences after now, never to the past."""
        _check(calendar)
        async with self._database.write("calendar.put") as connection:
            before = await store.lock(connection, actor.tenant_id, calendar.name)
            if before is not None and before.calendar == calendar:
                row = store.row_of(before)
            else:
                row = await self._replace(connection, actor, calendar)
            await remember(connection, row)
        return row

    async def _replace(
        self, connection: Connection, actor: Identity, calendar: Calendar
    ) -> CalendarRow:
        followers = await _locked_followers(connection, actor.tenant_id, calendar.name)
        # With every schedule of the calendar locked, none is being expanded by the old version.
        since = await clock.now(connection)
        row = await store.put(connection, actor.tenant_id, calendar, since)
        for follower in followers[:COMPUTED_AT_ONCE]:
            await _set_timer(connection, follower, since)
        for follower in followers[COMPUTED_AT_ONCE:]:
            # It is due now: the expander finds its next occurrence, in transactions of its own.
            if follower.set_aside_at is None and follower.buffered_for is None:
                await schedule_store.put_timer(connection, follower.key, since)
        await self._record(connection, actor, calendar.name, "calendar.changed")
        return row

    async def delete(self, actor: Identity, name: str) -> None:
        """Delete a calendar that no schedule uses."""
        async with self._database.write("calendar.delete") as connection:
            used = await store.used(connection, actor.tenant_id, name, 1)
            if used:
                detail = f"The schedule {used[0]} uses this calendar."
                raise refuse(Code.CONFLICT, detail, status="in_use")
            if not await store.delete(connection, actor.tenant_id, name):
                raise not_found("calendar", name[:64])
            await self._record(connection, actor, name, "calendar.deleted")

    async def _record(self, connection: Connection, actor: Identity, name: str, kind: str) -> None:
        about = named(actor.tenant_id, "calendar", name)
        await record_event(connection, about, kind, actor.key_id, {"calendar": name})


def _check(calendar: Calendar) -> None:
    if not _NAME.fullmatch(calendar.name):
        detail = "A calendar's name has 1 to 63 of A-Z a-z 0-9 _ . : - and begins with A-Z 0-9."
        raise refuse(Code.INVALID_FIELD, detail, "name")
    if len(calendar.holidays) > MAX_HOLIDAYS:
        detail = f"A calendar has at most {MAX_HOLIDAYS} holidays."
        raise refuse(Code.INVALID_FIELD, detail, "holidays")
    if len(calendar.weekend) >= _ALL_DAYS:
        raise refuse(Code.INVALID_FIELD, "One day of the week must be open.", "weekend")


async def _locked_followers(connection: Connection, tenant_id: int, name: str) -> list[ScheduleRow]:
    followers = await store.used(connection, tenant_id, name, MAX_FOLLOWERS + 1)
    if len(followers) > MAX_FOLLOWERS:
        detail = f"More than {MAX_FOLLOWERS} schedules follow it: give it another name."
        raise refuse(Code.CONFLICT, detail, "name", status="in_use")
    return [await locked(connection, tenant_id, schedule_id) for schedule_id in followers]


async def _set_timer(connection: Connection, row: ScheduleRow, since: datetime) -> None:
    """Move a schedule's timer to where its next occurrence is now.

    Occurrences before the upload still follow the old calendar, and keep their timer.
    """
    if row.set_aside_at is not None:
        return
    try:
        held = await timeline.load_segments(connection, row, row.handled)
        progress = ExpansionProgress(
            schedule_id=row.schedule_id, handled=row.handled, runs=row.runs
        )
        coming = await computed(None, next_up, held, progress)
    except Exception:
        # The expander will meet the same error and set this schedule aside.
        log.exception("schedule.not_recomputed", schedule_id=str(row.schedule_id))
        coming = None
    if coming is None:
        await schedule_store.put_timer(connection, row.key, since)
    elif coming.occurrence.scheduled_for > since and row.buffered_for is None:
        await schedule_store.put_timer(connection, row.key, max(coming.due_at, since))
