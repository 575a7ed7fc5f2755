"""Schedules read back, with the instants of their timers."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from postdate.database.connection.query import Reader, query
from postdate.schedule.store.schedule import ScheduleKey, ScheduleRow, key_of


class TimedSchedule(NamedTuple):
    """A schedule, and the instant of its timer where it has one."""

    row: ScheduleRow
    due_at: datetime | None


async def find(connection: Reader, key: ScheduleKey) -> TimedSchedule | None:
    """Read one schedule with its timer; a deleted one is left out."""
    row = await connection.fetchrow(query("schedule_view_find"), *key)
    return None if row is None else _timed(row)


async def named(
    connection: Reader, tenant_id: int, text: str, scan: int, limit: int
) -> list[tuple[UUID, str]]:
    """Find schedules whose names hold a text, among the newest `scan`."""
    rows = await connection.fetch(query("schedule_view_named"), tenant_id, text, scan, limit)
    return [(row[0], row[1]) for row in rows]


async def called(
    connection: Reader, tenant_id: int, name: str, after: UUID, limit: int
) -> list[TimedSchedule]:
    """List a tenant's schedules of exactly this name."""
    rows = await connection.fetch(query("schedule_view_called"), tenant_id, name, after, limit)
    found = [await find(connection, key_of(tenant_id, row[0])) for row in rows]
    return [each for each in found if each is not None]


async def page(
    connection: Reader,
    tenant_id: int,
    after: UUID,
    limit: int,
    *,
    missed: bool,
    set_aside: bool,
) -> list[TimedSchedule]:
    """List a tenant's schedules: all, with a missed occurrence, or set aside."""
    rows = await connection.fetch(
        query("schedule_view_page"), tenant_id, after, limit, missed, set_aside
    )
    return [_timed(row) for row in rows]


def _timed(row: Sequence[Any]) -> TimedSchedule:
    *own, due_at = row
    return TimedSchedule(ScheduleRow(*own), due_at)
