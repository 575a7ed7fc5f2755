"""The versions of schedules and calendars that apply since an instant."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from uuid import UUID

import msgspec

from postdate.calendar import store as calendar_store
from postdate.calendar.spec.version import REACH
from postdate.calendar.store import CalendarKey
from postdate.database.connection.query import Reader
from postdate.schedule.spec.timeline import CalendarVersion, Segment, Version, segments
from postdate.schedule.store import schedule as schedule_store
from postdate.schedule.store.schedule import ScheduleRow, StoredVersion
from postdate.words.error import RefusedError

LoadedSegments = dict[UUID, list[Segment] | Exception]
"""By schedule; an exception where what is stored cannot be read."""


async def load(
    connection: Reader, wanted: Sequence[tuple[ScheduleRow, datetime]]
) -> LoadedSegments:
    """Load the segments of schedules, each from its instant on.

    Usually the newest versions have applied since then, and nothing more is read.
    """
    old = [r.key for r, begin in wanted if r.version > 1 and begin - _reach(r) < r.since]
    stored = await schedule_store.versions(connection, old)
    read = {row.schedule_id: _read(row, stored.get(row.schedule_id)) for row, _ in wanted}
    begins = _followed(wanted, read)
    newest = await calendar_store.current(connection, begins)
    behind = [k for k, begin in begins.items() if k not in newest or begin < newest[k].since]
    older = await calendar_store.versions(connection, behind)
    calendars = {key: [version] for key, version in newest.items()} | older
    found: LoadedSegments = {}
    for row, begin in wanted:
        versions = read[row.schedule_id]
        if isinstance(versions, Exception):
            found[row.schedule_id] = versions
            continue
        try:
            found[row.schedule_id] = _segments(row.tenant_id, versions, calendars, begin)
        except RefusedError as error:
            # A rule that was valid once and no longer is.
            found[row.schedule_id] = error
    return found


async def load_segments(connection: Reader, row: ScheduleRow, begin: datetime) -> list[Segment]:
    """Load the segments of one schedule from an instant on."""
    found = (await load(connection, [(row, begin)]))[row.schedule_id]
    if isinstance(found, Exception):
        raise found
    return found


def undecided_since(row: ScheduleRow) -> datetime:
    """Return the instant from which on something may still have to be decided."""
    return row.handled if row.buffered_for is None else min(row.handled, row.buffered_for)


def _read(row: ScheduleRow, stored: Sequence[StoredVersion] | None) -> list[Version] | Exception:
    try:
        if stored is not None:
            return [each.read() for each in stored]
        only = Version(
            number=row.version,
            since=row.since,
            previous_until=row.since,
            definition=row.definition,
        )
    except msgspec.MsgspecError as error:
        return error
    return [only]


def _followed(
    wanted: Sequence[tuple[ScheduleRow, datetime]],
    read: Mapping[UUID, list[Version] | Exception],
) -> dict[CalendarKey, datetime]:
    """Return the calendars that these schedules use, and since when their versions matter."""
    begins: dict[CalendarKey, datetime] = {}
    for row, begin in wanted:
        versions = read[row.schedule_id]
        for each in () if isinstance(versions, Exception) else versions:
            if (name := each.definition.rule.calendar) is not None:
                key, early = (row.tenant_id, name), begin - _reach(row)
                begins[key] = min(early, begins.get(key, early))
    return begins


def _reach(row: ScheduleRow) -> timedelta:
    """Return how long a change of its calendar affects a schedule."""
    return REACH if row.rolls else timedelta(0)


def _segments(
    tenant_id: int,
    versions: Sequence[Version],
    calendars: Mapping[CalendarKey, Sequence[CalendarVersion]],
    begin: datetime,
) -> list[Segment]:
    if len(versions) == 1 and versions[0].definition.rule.calendar is None:
        return segments(versions, {})
    names = {each.definition.rule.calendar or "" for each in versions}
    own = {name: calendars.get((tenant_id, name), ()) for name in names}
    held = segments(versions, own)
    return [each for each in held if each.until is None or each.until >= begin]
