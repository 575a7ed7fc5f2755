"""Business calendars."""

from collections.abc import Iterable
from datetime import date, datetime
from uuid import UUID

import msgspec

from postdate.model.calendar import Calendar
from postdate.store.database import Connection
from postdate.store.query import query


class CalendarRow(msgspec.Struct, frozen=True):
    """A calendar as stored."""

    name: str
    weekend: list[int]
    holidays: list[date]
    changed_at: datetime


async def put(connection: Connection, tenant_id: int, calendar: Calendar) -> CalendarRow:
    """Write a calendar, new or again."""
    row = await connection.fetchrow(
        query("calendar_put"),
        tenant_id,
        calendar.name,
        sorted(calendar.weekend),
        sorted(calendar.holidays),
    )
    if row is None:
        raise LookupError("an upsert gave no row")
    return CalendarRow(*row)


async def find(
    connection: Connection, names: Iterable[tuple[int, str]]
) -> dict[tuple[int, str], Calendar]:
    """Find calendars by tenant and name."""
    wanted = sorted(set(names))
    if not wanted:
        return {}
    tenants, texts = zip(*wanted, strict=True)
    rows = await connection.fetch(query("calendar_find"), tenants, texts)
    return {
        (tenant_id, name): Calendar(name, frozenset(holidays), frozenset(weekend))
        for tenant_id, name, weekend, holidays in rows
    }


async def get(connection: Connection, tenant_id: int, name: str) -> CalendarRow | None:
    """Read one calendar."""
    row = await connection.fetchrow(query("calendar_get"), tenant_id, name)
    return None if row is None else CalendarRow(*row)


async def page(connection: Connection, tenant_id: int, after: str, limit: int) -> list[CalendarRow]:
    """List a tenant's calendars by name."""
    rows = await connection.fetch(query("calendar_page"), tenant_id, after, limit)
    return [CalendarRow(*row) for row in rows]


async def delete(connection: Connection, tenant_id: int, name: str) -> bool:
    """Remove a calendar; False when there is none."""
    return await connection.fetchval(query("calendar_delete"), tenant_id, name) is not None


async def used(connection: Connection, tenant_id: int, name: str, limit: int) -> list[UUID]:
    """List schedules that follow a calendar."""
    rows = await connection.fetch(query("calendar_used"), tenant_id, name, limit)
    return [row[0] for row in rows]
