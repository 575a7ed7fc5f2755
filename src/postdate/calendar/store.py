"""Business calendars."""

from collections.abc import Iterable
from datetime import datetime
from typing import Final
from uuid import UUID

import asyncpg

from postdate.calendar.spec.calendar import CalendarView
from postdate.database.connection.query import Connection, Reader, fetch_all, fetch_one, query
from postdate.recurrence.calendar import Calendar
from postdate.schedule.spec.timeline import CalendarVersion

MAX_VERSIONS: Final = 50
"""How many versions of a calendar are kept."""

CalendarKey = tuple[int, str]
"""The tenant and the name."""


async def lock(connection: Connection, tenant_id: int, name: str) -> CalendarVersion | None:
    """Lock a calendar before the schedules that use it, and return its current version."""
    row = await connection.fetchrow(query("calendar_lock"), tenant_id, name)
    return None if row is None else _version(row)


def view_of(version: CalendarVersion) -> CalendarView:
    """Show a version as a read shows it."""
    calendar = version.calendar
    days = sorted(calendar.weekend), sorted(calendar.holidays)
    return CalendarView(calendar.name, *days, version.since)


async def put(
    connection: Connection, tenant_id: int, calendar: Calendar, since: datetime
) -> CalendarView:
    """Write a new version of a calendar, valid from an instant."""
    days = sorted(calendar.weekend), sorted(calendar.holidays)
    values = (tenant_id, calendar.name, *days, since)
    row = await connection.fetchrow(query("calendar_put"), *values)
    if row is None:
        raise LookupError("an upsert gave no row")
    await connection.execute(query("calendar_insert_version"), *values)
    await connection.execute(
        query("calendar_prune_versions"), tenant_id, calendar.name, MAX_VERSIONS
    )
    return CalendarView(*row)


async def current(
    connection: Reader, names: Iterable[CalendarKey]
) -> dict[CalendarKey, CalendarVersion]:
    """Find the current versions of calendars, by tenant and name."""
    found = await _find(connection, "calendar_current", names)
    return {key: versions[-1] for key, versions in found.items()}


async def versions(
    connection: Reader, names: Iterable[CalendarKey]
) -> dict[CalendarKey, list[CalendarVersion]]:
    """Find all versions of calendars, the oldest first; deleted calendars too."""
    return await _find(connection, "calendar_versions", names)


async def _find(
    connection: Reader, name: str, names: Iterable[CalendarKey]
) -> dict[CalendarKey, list[CalendarVersion]]:
    wanted = sorted(set(names))
    found: dict[CalendarKey, list[CalendarVersion]] = {}
    if wanted:
        for row in await connection.fetch(query(name), *zip(*wanted, strict=True)):
            found.setdefault((row[0], row[1]), []).append(_version(row))
    return found


def _version(row: asyncpg.Record) -> CalendarVersion:
    _, name, weekend, holidays, since = row
    return CalendarVersion(since, Calendar(name, frozenset(holidays), frozenset(weekend)))


async def find(connection: Reader, tenant_id: int, name: str) -> CalendarView | None:
    """Read one calendar."""
    return await fetch_one(connection, CalendarView, "calendar_find", tenant_id, name)


async def page(connection: Reader, tenant_id: int, after: str, limit: int) -> list[CalendarView]:
    """List a tenant's calendars by name."""
    return await fetch_all(connection, CalendarView, "calendar_page", tenant_id, after, limit)


async def delete(connection: Connection, tenant_id: int, name: str) -> bool:
    """Remove a calendar; False when there is none."""
    return await connection.fetchval(query("calendar_delete"), tenant_id, name) is not None


async def used(connection: Connection, tenant_id: int, name: str, limit: int) -> list[UUID]:
    """List schedules that use a calendar."""
    rows = await connection.fetch(query("calendar_used"), tenant_id, name, limit)
    return [row[0] for row in rows]
