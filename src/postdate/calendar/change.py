"""Business calendars: upload and delete them; schedules that use one are recomputed."""

from datetime import datetime
from typing import Final

from postdate.calendar import store
from postdate.calendar.spec.calendar import CalendarSpec, CalendarView
from postdate.calendar.view import CALENDAR
from postdate.core.identity import Identity
from postdate.core.log import Log
from postdate.database.connection import clock
from postdate.database.connection.database import Connection
from postdate.database.connection.off_loop import computed
from postdate.recurrence.calendar import Calendar
from postdate.resource.change import Change, Changes
from postdate.schedule.change.schedule import locked
from postdate.schedule.spec.expansion import ExpansionProgress, next_up
from postdate.schedule.store import schedule as schedule_store
from postdate.schedule.store import timeline
from postdate.schedule.store.schedule import ScheduleRow
from postdate.words.error import Code, not_found, refuse

log = Log()

MAX_FOLLOWERS: Final = 1000
"""The most schedules whose next occurrence is moved at once by a change of their calendar."""

COMPUTED_AT_ONCE: Final = 10
"""So many of them are moved in the transaction of the change; it holds all of them meanwhile."""

_ALL_DAYS: Final = 7


class Calendars(Changes):
    """Write calendars."""

    @CALENDAR.create("put_calendar", event="changed")
    async def put(self, change: Change[Identity], spec: CalendarSpec) -> CalendarView:
        """Upload a business calendar; schedules that use it are recomputed.

        The next occurrences move immediately if a day has opened or closed.
        """
        if len(spec.weekend) >= _ALL_DAYS:
            raise refuse(Code.INVALID_FIELD, "One day of the week must be open.", "weekend")
        calendar = Calendar(spec.name, frozenset(spec.holidays), frozenset(spec.weekend))
        before = await store.lock(change.connection, change.tenant_id, calendar.name)
        if before is not None and before.calendar == calendar:
            return store.view_of(before)
        made = await _replace(change.connection, change.tenant_id, calendar)
        await change.record(calendar.name, {"calendar": calendar.name})
        return made

    @CALENDAR.delete()
    async def delete(self, change: Change[Identity], name: str) -> None:
        """Delete a business calendar that no schedule uses.

        While a schedule uses it, the answer is 409.
        """
        if used := await store.used(change.connection, change.tenant_id, name, 1):
            detail = f"The schedule {used[0]} uses this calendar."
            raise refuse(Code.CONFLICT, detail, status="in_use")
        if not await store.delete(change.connection, change.tenant_id, name):
            raise not_found("calendar", name[:64])
        await change.record(name, {"calendar": name})


async def _replace(connection: Connection, tenant_id: int, calendar: Calendar) -> CalendarView:
    followers = await _locked_followers(connection, tenant_id, calendar.name)
    # With every schedule of the calendar locked, none is being expanded by the old version.
    since = await clock.now(connection)
    made = await store.put(connection, tenant_id, calendar, since)
    for follower in followers[:COMPUTED_AT_ONCE]:
        await _set_timer(connection, follower, since)
    for follower in followers[COMPUTED_AT_ONCE:]:
        # It is due now: the expander finds its next occurrence, in transactions of its own.
        if follower.set_aside_at is None and follower.buffered_for is None:
            await schedule_store.put_timer(connection, follower.key, since)
    return made


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
