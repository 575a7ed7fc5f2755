"""Rules by whole days of UTC: on which days a rule runs, and at which seconds of each of them.

Most rules have the same times on all of their days, so a few sets of days say what a rule does in
years. Which clock a time is read by is decided by `mapping`, which day an occurrence moves to by
`calendar`, exactly as for occurrences that are found one by one.
"""

import sys
from array import array
from bisect import bisect_left
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from functools import cached_property, lru_cache
from threading import Lock
from typing import Final, NamedTuple

from postdate.recurrence import calendar as calendars
from postdate.recurrence import mapping, zone
from postdate.recurrence.calendar import MAX_ROLL_DAYS, Calendar, Roll
from postdate.recurrence.days import END, Days
from postdate.recurrence.mapping import Clock
from postdate.recurrence.product import ChosenSlots, Product
from postdate.recurrence.rule import SECONDS_A_DAY, Dst
from postdate.recurrence.walk import Walk

MAX_DAY_SETS: Final = 16_384
MAX_BYTES: Final = 64 << 20
"""How much memory the seconds of days may take, of all rules together."""

OBJECT_BYTES: Final = 400
MINUTE_BITS: Final = 32
"""How much room each minute of a day has in an integer of counts."""

PACKED_BYTES: Final = 1440 * MINUTE_BITS // 8
FEW: Final = 32
"""Up to this many minutes are added one by one; more are packed into an integer."""

LOOK_DAYS: Final = 480
"""A rule's days are found this far ahead at once: a window of a year is a part of it for months."""

YEAR_DAYS: Final = 365

_DAY: Final = timedelta(days=1)
_SECOND: Final = timedelta(seconds=1)

DayBits = Callable[[int, int], int]
"""Which of some days in a row there are: the number of the first, which is bit 0, and how many."""


class DayTimes:
    """Seconds of a day on the wall clock; one object for all rules that have the same.

    They are not listed: there may be 86,400 of them.
    """

    def __init__(self, chosen: tuple[int, ...] | range | Product | ChosenSlots) -> None:
        self._chosen = chosen
        self.size = chosen.size if isinstance(chosen, Product | ChosenSlots) else len(chosen)

    def seconds(self) -> Sequence[int]:
        """List the seconds, in order."""
        chosen = self._chosen
        return chosen.numbers() if isinstance(chosen, Product | ChosenSlots) else chosen


day_times: Final = lru_cache(MAX_DAY_SETS)(DayTimes)


@lru_cache(8)
def _listed(times: DayTimes) -> Sequence[int]:
    """List seconds once for all days of a rule, which are read one after the other."""
    return times.seconds()


class PatternMinutes(NamedTuple):
    """The minutes of a day that have a time at a given second of the minute."""

    second: int
    few: Sequence[int]
    """The minutes, where there are few of them."""
    packed: int
    """A count of 1 in the place of each minute, where there are many."""


def pack(counts: Mapping[int, int]) -> int:
    """Pack counts by minute, counted from a midnight on, into one integer."""
    row = array("I", bytes(MINUTE_BITS // 8 * (max(counts, default=0) + 1)))
    for minute, count in counts.items():
        row[minute] += count
    return int.from_bytes(row.tobytes(), sys.byteorder)


class DaySeconds:
    """Seconds of a day of UTC, in order."""

    def __init__(self, seconds: Iterable[int]) -> None:
        self.seconds = array("i", seconds)

    @property
    def bytes(self) -> int:
        """Return the most memory that this takes, its minutes included."""
        size = len(self.seconds)
        return OBJECT_BYTES + 4 * size + PACKED_BYTES * min(60, size // FEW)

    @cached_property
    def minutes(self) -> tuple[PatternMinutes, ...]:
        """Return the seconds by minute."""
        found: dict[int, list[int]] = defaultdict(list)
        for each in self.seconds:
            found[each % 60].append(each // 60)
        return tuple(
            PatternMinutes(second, minutes, 0)
            if len(minutes) <= FEW
            else PatternMinutes(second, (), pack(dict.fromkeys(minutes, 1)))
            for second, minutes in found.items()
        )

    def between(self, low: int, high: int) -> "DaySeconds":
        """Return those from one second on and before another."""
        begin, end = bisect_left(self.seconds, low), bisect_left(self.seconds, high)
        return DaySeconds(self.seconds[begin:end])


_few_seconds: Final = lru_cache(MAX_DAY_SETS)(DaySeconds)
"""Rules of different zones often run at the same few seconds."""


class RunDays(NamedTuple):
    """Days of UTC, as bits from the first one asked for, and the seconds of each of them."""

    days: int
    seconds: DaySeconds


class _Reading(NamedTuple):
    """A clock that is ahead of UTC by `offset`, read between two seconds of a day of UTC."""

    offset: int
    low: int = 0
    high: int = SECONDS_A_DAY


class _Stretch:
    """Days of UTC on which a zone's times are read alike."""

    def __init__(self, days: int, readings: tuple[_Reading, ...]) -> None:
        self.days = days
        self.readings = readings
        offset = readings[0].offset
        self.is_usual = readings == (_Reading(offset),)
        """Whether one clock is read all day."""
        self.shifts = (1, 2) if offset > 0 else (0, 1) if offset else (1,)
        """Whose times that clock reads: those of the day before (0), of the day, of the next."""


class _SecondsMemory:
    """Remembers seconds of days, and drops the least recently used when they take too much."""

    def __init__(self) -> None:
        self._known: OrderedDict[Hashable, DaySeconds] = OrderedDict()
        self._lock = Lock()
        self._size = 0

    def get(self, times: DayTimes, near: int, stretch: _Stretch) -> DaySeconds:
        """Return what times on some of the days around a day of UTC are on that day."""
        key = times, near, stretch.readings
        with self._lock:
            known = self._known.get(key)
            if known is not None:
                self._known.move_to_end(key)
                return known
        found = _read(times, near, stretch.readings)
        with self._lock:
            self._size += 0 if key in self._known else found.bytes
            self._known[key] = found
            while self._size > MAX_BYTES:
                self._size -= self._known.popitem(last=False)[1].bytes
        return found


_memory: Final = _SecondsMemory()


def _read(times: DayTimes, near: int, readings: Sequence[_Reading]) -> DaySeconds:
    seconds, found = _listed(times), list[int]()
    for place in range(3):
        if near >> place & 1:
            for offset, low, high in readings:
                later = (place - 1) * SECONDS_A_DAY - offset
                begin, end = bisect_left(seconds, low - later), bisect_left(seconds, high - later)
                found += [each + later for each in seconds[begin:end]]
    if len(readings) > 1:  # times that two clocks read at one instant run once
        found = sorted(set(found))
    return _few_seconds(tuple(found)) if len(found) <= FEW else DaySeconds(found)


class DaySet:
    """The days of a rule on the wall clock, remembered for the two years last asked for."""

    def __init__(self, bits: DayBits) -> None:
        self._bits = bits
        self._known = (0, 0, 0)

    def within(self, first: int, count: int) -> int:
        """Return the bits of some days in a row."""
        known, size, bits = self._known
        if not known <= first <= first + count <= known + size:
            known, size = first, max(count, LOOK_DAYS)
            bits = self._bits(known, size)
            self._known = known, size, bits
        return bits >> first - known & (1 << count) - 1


def run_days(
    days: DaySet, times: DayTimes, timezone: str, dst: Dst, first: int, count: int
) -> Iterator[RunDays]:
    """Return when times on days of the wall clock are, on some days of UTC."""
    local = days.within(first - 1, count + 2)
    if not local or not times.size:
        return
    for stretch in _stretches(timezone, dst, first, count):
        if not stretch.is_usual:
            near = local >> stretch.days.bit_length() - 1 & 0b111
            if near:
                yield RunDays(stretch.days, _memory.get(times, near, stretch))
            continue
        for place in stretch.shifts:
            on = local >> place & stretch.days
            if on and (found := _memory.get(times, 1 << place, stretch)).seconds:
                yield RunDays(on, found)


@lru_cache(maxsize=512)
def _stretches(timezone: str, dst: Dst, first: int, count: int) -> tuple[_Stretch, ...]:
    """Return the days that are read by one clock, by its offset, and each other day by itself."""
    origin = datetime.combine(date.fromordinal(first), time(), UTC)
    usual: dict[int, int] = defaultdict(int)
    others: dict[int, list[_Reading]] = defaultdict(list)

    def add(clock: Clock, *, alone: bool) -> None:
        low = max(0, (clock.begin - origin) // _SECOND)
        high = min(count * SECONDS_A_DAY, (clock.end - origin) // _SECOND)
        offset = clock.offset // _SECOND
        whole = range(-(-low // SECONDS_A_DAY), high // SECONDS_A_DAY) if alone else range(0)
        if whole:
            usual[offset] |= (1 << len(whole)) - 1 << whole.start
        for day in range(low // SECONDS_A_DAY, -(-high // SECONDS_A_DAY)):
            if day not in whole:
                cut = (max(0, low - day * SECONDS_A_DAY), high - day * SECONDS_A_DAY)
                others[day].append(_Reading(offset, cut[0], min(SECONDS_A_DAY, cut[1])))

    for head, middle, tail in _spans(timezone, dst, origin, origin + count * _DAY):
        add(middle, alone=True)
        for clock in (*head, *tail):
            if clock.skip is None:
                add(clock, alone=False)
    found = [_Stretch(days, (_Reading(offset),)) for offset, days in usual.items()]
    return (*found, *(_Stretch(1 << day, tuple(own)) for day, own in others.items()))


def _spans(
    timezone: str, dst: Dst, begin: datetime, until: datetime
) -> Iterator[mapping.SpanClocks]:
    at = begin
    while at < until:
        span = zone.span(zone.get(timezone), at)
        yield mapping.clocks(span, dst)
        at = span.end


@lru_cache(MAX_DAY_SETS)
def every_days(interval: int, day: int) -> DaySet:
    """Return every n-th day, one of them being `day`."""

    def bits(first: int, count: int) -> int:
        if interval == 1:
            return (1 << count) - 1
        return sum(1 << at for at in range((day - first) % interval, count, interval))

    return DaySet(bits)


@lru_cache(MAX_DAY_SETS)
def walk_days(
    days: Walk | Days, excluded: tuple[date, ...], calendar: Calendar | None, roll: Roll
) -> DaySet:
    """Return the days on which the occurrences of these days run."""

    def bits(first: int, count: int) -> int:
        before = first - MAX_ROLL_DAYS
        found = _long(days.day_bits, before, count + 2 * MAX_ROLL_DAYS)
        return _open(excluded, calendar, roll, found, before) >> MAX_ROLL_DAYS & (1 << count) - 1

    return DaySet(bits)


def _long(within: DayBits, first: int, count: int) -> int:
    """Return the bits of any number of days, as far as rules go: `within` takes a year at once."""
    bits = 0
    for at in range(0, min(count, END - first), YEAR_DAYS):
        bits |= within(first + at, min(YEAR_DAYS, count - at)) << at
    return bits


def _open(
    excluded: Sequence[date], calendar: Calendar | None, roll: Roll, bits: int, first: int
) -> int:
    """Apply the calendar and the exclusions to days."""
    for each in excluded:
        at = each.toordinal() - first
        bits &= ~(1 << at) if at >= 0 else -1
    if calendar is None:
        return bits
    size = bits.bit_length()
    opened = _long(calendars.open_days(calendar, frozenset()).day_bits, first, size) if size else 0
    closed, bits = bits & ~opened, bits & opened
    while closed and roll is not Roll.NONE:
        place = (closed & -closed).bit_length() - 1
        target = calendars.roll_day(calendar, date.fromordinal(first + place), roll)
        if target is not None and target not in excluded:
            bits |= 1 << max(0, target.toordinal() - first)
        closed &= closed - 1
    return bits
