"""Time zones: where local time repeats or is missing, from the tz data we ship with."""

from datetime import UTC, date, datetime, time, timedelta
from functools import cache, lru_cache
from importlib.resources import files
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

import tzdata

from postdate.model.errors import Code, refuse

VERSION: Final[str] = tzdata.IANA_VERSION
"""The release of the tz data that all occurrences are computed with."""

_ZERO: Final = timedelta(0)
_PROBE: Final = timedelta(hours=1)
_REACH: Final = timedelta(hours=30)
"""The longest known jump is a whole day (Apia, 2011-12-30)."""

_SECOND: Final = timedelta(seconds=1)


class Change(NamedTuple):
    """An instant at which a zone's offset from UTC changes."""

    at: datetime
    before: timedelta
    after: timedelta

    @property
    def size(self) -> timedelta:
        """Give the length of the local time that is missing or repeated."""
        return abs(self.after - self.before)


@cache
def names() -> frozenset[str]:
    """Give every zone of the tz data we ship with."""
    return frozenset(files("tzdata").joinpath("zones").read_text().split())


@cache
def find(name: str) -> ZoneInfo:
    """Load a zone; an unknown one is refused by name.

    The package's data is read, never the machine's: every node computes the same instants.
    """
    if name not in names():
        raise refuse(Code.INVALID_FIELD, f"There is no time zone {name[:64]!r}.", "timezone")
    with files("tzdata.zoneinfo").joinpath(*name.split("/")).open("rb") as data:
        return ZoneInfo.from_file(data, key=name)


def to_local(zone: ZoneInfo, at: datetime) -> datetime:
    """Give the wall clock's reading at an instant, without its zone."""
    return at.astimezone(zone).replace(tzinfo=None, fold=0)


def offsets(zone: ZoneInfo, local: datetime) -> tuple[timedelta, timedelta]:
    """Give the two offsets a local time may have; PEP 495 calls them fold 0 and 1.

    Equal: an ordinary time. The first greater: the time repeats. The second greater: it is missing.
    """
    first = local.replace(tzinfo=zone).utcoffset()
    second = local.replace(tzinfo=zone, fold=1).utcoffset()
    return first or _ZERO, second or _ZERO


def instant(local: datetime, offset: timedelta) -> datetime:
    """Give the instant at which a clock with this offset shows this time."""
    return (local - offset).replace(tzinfo=UTC)


@lru_cache(maxsize=16_384)
def changes(zone: ZoneInfo, day: date) -> tuple[Change, ...]:
    """Find the changes of offset within reach of a day, by looking at every hour around it."""
    at = datetime.combine(day, time(), UTC) - _REACH
    end = at + 2 * _REACH + timedelta(days=1)
    found = []
    before = _offset_at(zone, at)
    while at < end:
        after = _offset_at(zone, at + _PROBE)
        if after != before:
            found.append(_bisect(zone, at, before, after))
        at, before = at + _PROBE, after
    return tuple(found)


def _offset_at(zone: ZoneInfo, at: datetime) -> timedelta:
    return at.astimezone(zone).utcoffset() or _ZERO


def _bisect(zone: ZoneInfo, low: datetime, before: timedelta, after: timedelta) -> Change:
    still, changed = 0, int(_PROBE.total_seconds())
    while changed - still > 1:
        middle = (still + changed) // 2
        if _offset_at(zone, low + middle * _SECOND) == before:
            still = middle
        else:
            changed = middle
    return Change(low + changed * _SECOND, before, after)
