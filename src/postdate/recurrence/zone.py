"""Time zones: where local time repeats or is missing, from the tz data we ship with."""

from bisect import bisect_right
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from importlib.resources import files
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

import tzdata

from postdate.recurrence.budget import HORIZON
from postdate.words.error import Code, refuse

VERSION: Final[str] = tzdata.IANA_VERSION
"""The release of the tz data that all occurrences are computed with."""

_ZERO: Final = timedelta(0)
_PROBE: Final = timedelta(days=4)
"""Since 1970 no two changes of a zone lay closer together than a week (Recife, October 2000)."""

_SECOND: Final = timedelta(seconds=1)
_TWO_DAYS: Final = timedelta(days=2)
"""More than any jump of a clock."""


class OffsetChange(NamedTuple):
    """An instant at which a zone's offset from UTC changes."""

    at: datetime
    before: timedelta
    after: timedelta

    @property
    def size(self) -> timedelta:
        """Return the length of the local time that is missing or repeated."""
        return abs(self.after - self.before)


@cache
def names() -> frozenset[str]:
    """Return every zone of the tz data we ship with."""
    return frozenset(files("tzdata").joinpath("zones").read_text().split())


@cache
def get(name: str) -> ZoneInfo:
    """Load a zone; an unknown one is refused by name.

    The package's data is read, never the machine's: every node computes the same instants.
    """
    if name not in names():
        raise refuse(Code.INVALID_FIELD, f"There is no time zone {name[:64]!r}.", "timezone")
    with files("tzdata.zoneinfo").joinpath(*name.split("/")).open("rb") as data:
        return ZoneInfo.from_file(data, key=name)


def to_local(zone: ZoneInfo, at: datetime) -> datetime:
    """Return the wall clock's reading at an instant, without its zone."""
    return at.astimezone(zone).replace(tzinfo=None, fold=0)


def to_wall(zone: ZoneInfo, at: datetime) -> datetime:
    """Return the first whole second that the wall clock shows at an instant or after it."""
    whole = at.replace(microsecond=0)
    return to_local(zone, whole if whole == at else whole + timedelta(seconds=1))


def offsets(zone: ZoneInfo, local: datetime) -> tuple[timedelta, timedelta]:
    """Return the two offsets a local time may have; PEP 495 calls them fold 0 and 1.

    Equal: an ordinary time. The first greater: the time repeats. The second greater: it is missing.
    """
    first = local.replace(tzinfo=zone).utcoffset()
    second = local.replace(tzinfo=zone, fold=1).utcoffset()
    return first or _ZERO, second or _ZERO


def instant(local: datetime, offset: timedelta) -> datetime:
    """Return the instant at which a clock with this offset shows this time."""
    return (local - offset).replace(tzinfo=UTC)


def latest_reading(zone: ZoneInfo, at: datetime) -> datetime:
    """Return a time on the wall clock after which none means this instant or an earlier one."""
    # Outside these years there is nothing to find.
    at = min(max(at, _new_year(1970)), _new_year(HORIZON.year))
    near = (at - _TWO_DAYS, at, at + _TWO_DAYS)
    return at.replace(tzinfo=None) + max(_offset_at(zone, each) for each in near)


class OffsetSpan(NamedTuple):
    """A stretch of time in which a zone keeps one offset, and the changes at its ends, if any."""

    begin: datetime
    end: datetime
    offset: timedelta
    opened: OffsetChange | None
    closed: OffsetChange | None


def span(zone: ZoneInfo, at: datetime) -> OffsetSpan:
    """Find the stretch around an instant; where nothing changes it is cut after a year or two."""
    changes, instants = _around(zone, at.year)
    place = bisect_right(instants, at)
    opened = changes[place - 1] if place else None
    closed = changes[place] if place < len(changes) else None
    return OffsetSpan(
        opened.at if opened else _new_year(at.year - 1),
        closed.at if closed else _new_year(at.year + 2),
        _offset_at(zone, at),
        opened,
        closed,
    )


def skipped_times(zone: ZoneInfo, start: datetime) -> Iterator[tuple[datetime, datetime]]:
    """Return the local times that clocks skip, as beginnings and ends, from a local time on."""
    for year in range(start.year, HORIZON.year):
        for change in _changes(zone, year):
            at = change.at.replace(tzinfo=None)
            if change.after > change.before and at + change.after > start:
                yield at + change.before, at + change.after


@lru_cache(maxsize=4096)
def _around(zone: ZoneInfo, year: int) -> tuple[tuple[OffsetChange, ...], tuple[datetime, ...]]:
    found = tuple(change for at in (-1, 0, 1) for change in _changes(zone, year + at))
    return found, tuple(change.at for change in found)


@lru_cache(maxsize=8192)
def _changes(zone: ZoneInfo, year: int) -> tuple[OffsetChange, ...]:
    """Find the changes of offset in a year, by checking every fourth day."""
    at, end, found = _new_year(year), _new_year(year + 1), []
    before = _offset_at(zone, at)
    while at < end:
        later = min(at + _PROBE, end)
        after = _offset_at(zone, later)
        if after != before:
            found.append(_bisect(zone, at, later, before, after))
        at, before = later, after
    return tuple(found)


def _new_year(year: int) -> datetime:
    return datetime(year, 1, 1, tzinfo=UTC)


def _offset_at(zone: ZoneInfo, at: datetime) -> timedelta:
    return at.astimezone(zone).utcoffset() or _ZERO


def _bisect(
    zone: ZoneInfo, low: datetime, high: datetime, before: timedelta, after: timedelta
) -> OffsetChange:
    still, changed = 0, int((high - low).total_seconds())
    while changed - still > 1:
        middle = (still + changed) // 2
        if _offset_at(zone, low + middle * _SECOND) == before:
            still = middle
        else:
            changed = middle
    return OffsetChange(low + changed * _SECOND, before, after)
