"""Business calendars: upload and delete them; schedules that follow one are computed anew."""

import re
from datetime import datetime
from typing import Final
from uuid import UUID

from postdate.intake.schedule import locked
from postdate.model.calendar import Calendar
from postdate.model.errors import Code, refuse
from postdate.model.expansion import Progress, next_due
from postdate.model.identity import Identity
from postdate.model.ids import bucket_of, new_id, subject_id
from postdate.model.schedule_rules import plan_of
from postdate.store import calendar as store
from postdate.store import event as event_store
from postdate.store import schedule as schedule_store
from postdate.store.calendar import CalendarRow
from postdate.store.database import Connection, Database
from postdate.store.event import NewEvent

FOLLOWERS_MOST: Final = 1000
"""The most schedules whose next occurrence is moved at once by a change of their calendar."""

HOLIDAYS_MOST: Final = 5000
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,62}")
_ALL_DAYS: Final = 7


class Calendars:
    """Write calendars."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def put(self, who: Identity, calendar: Calendar) -> CalendarRow:
        """Upload a calendar; one of the same name is replaced."""
        _check(calendar)
        async with self._database.write() as connection:
            row = await store.put(connection, who.tenant_id, calendar)
            followers = await store.used(
                connection, who.tenant_id, calendar.name, FOLLOWERS_MOST + 1
            )
            if len(followers) > FOLLOWERS_MOST:
                detail = f"More than {FOLLOWERS_MOST} schedules follow it: give it another name."
                raise refuse(Code.CONFLICT, detail, "name", status="in_use")
            for schedule_id in followers:
                await _recompute(connection, who.tenant_id, schedule_id, calendar)
            await self._note(connection, who, calendar.name, "calendar.changed")
        return row

    async def delete(self, who: Identity, name: str) -> None:
        """Delete a calendar that no schedule follows."""
        async with self._database.write() as connection:
            used = await store.used(connection, who.tenant_id, name, 1)
            if used:
                detail = f"The schedule {used[0]} follows it."
                raise refuse(Code.CONFLICT, detail, status="in_use")
            if not await store.delete(connection, who.tenant_id, name):
                raise refuse(Code.NOT_FOUND, f"There is no calendar {name[:64]}.")
            await self._note(connection, who, name, "calendar.deleted")

    async def _note(self, connection: Connection, who: Identity, name: str, kind: str) -> None:
        subject = subject_id(who.tenant_id, f"calendar/{name}")
        bucket = bucket_of(subject)
        event_id = new_id(bucket, self._database.unix_ms())
        event = NewEvent(
            bucket, who.tenant_id, subject, event_id, kind, who.key_id, {"calendar": name}
        )
        await event_store.insert(connection, [event])


def _check(calendar: Calendar) -> None:
    if not _NAME.fullmatch(calendar.name):
        detail = "A calendar's name has 1 to 63 of A-Z a-z 0-9 _ . : - and begins with A-Z 0-9."
        raise refuse(Code.INVALID_FIELD, detail, "name")
    if len(calendar.holidays) > HOLIDAYS_MOST:
        detail = f"A calendar has at most {HOLIDAYS_MOST} holidays."
        raise refuse(Code.INVALID_FIELD, detail, "holidays")
    if len(calendar.weekend) >= _ALL_DAYS:
        raise refuse(Code.INVALID_FIELD, "One day of the week must be open.", "weekend")


async def _recompute(
    connection: Connection, tenant_id: int, schedule_id: UUID, calendar: Calendar
) -> datetime | None:
    """Move a schedule's timer to where the new calendar puts its next occurrence."""
    row = await locked(connection, tenant_id, schedule_id)
    definition = row.definition
    progress = Progress(schedule_id=schedule_id, handled=row.handled, runs=row.runs)
    due_at = next_due(plan_of(definition, calendar), definition.policies, progress)
    await schedule_store.put_timer(connection, row.key, due_at)
    return due_at
