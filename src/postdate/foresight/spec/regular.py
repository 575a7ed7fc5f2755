"""Rules made ready to be counted: a set of days and, on each of them, the same seconds.

A rule is compiled once. What it does in a window is then found by arithmetic on whole days; only
the few days on which a clock changes are looked at time by time.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from functools import cached_property, lru_cache
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

import msgspec

from postdate.foresight.spec.minutes import pack
from postdate.recurrence import calendar as calendars
from postdate.recurrence import zone
from postdate.recurrence.calendar import MAX_ROLL_DAYS, Calendar, Roll
from postdate.recurrence.days import END, Days
from postdate.recurrence.plan import RecurrencePlan, daily_walk, last_time
from postdate.recurrence.product import ChosenSlots, Product
from postdate.recurrence.rule import EPOCH, SECONDS_A_DAY, Dst, Gap, Repeated
from postdate.recurrence.walk import Walk
from postdate.recurrence.zone import OffsetChange
from postdate.words.error import RefusedError

REMEMBERED: Final = 16_384
FEW: Final = 32
"""Up to this many minutes are added one by one; more are packed into an integer."""

LOOK_DAYS: Final = 800
"""The days of a rule are found so far ahead at once: the windows of two years are parts of it."""

YEAR_DAYS: Final = 365

EPOCH_DAY: Final = EPOCH.toordinal()
NOON: Final = SECONDS_A_DAY // 2

_DAY: Final = timedelta(days=1)
_SECOND: Final = timedelta(seconds=1)
_NEAR: Final = timedelta(days=5)
"""A rule whose end is nearer than this to an instant may end before it."""

DayBits = Callable[[int, int], int]
"""Which of some days in a row there are: the number of the first, which is bit 0, and how many."""


class PatternMinutes(NamedTuple):
    """The times at a given second of the minute, by minute from a midnight on."""

    second: int
    few: tuple[tuple[int, int], ...]
    """PatternMinutes and counts, where there are few of them."""
    packed: int
    """The counts packed into an integer, where there are many."""


class DayTimes:
    """Seconds from a midnight on, in order; one object for all rules that have the same.

    They are listed when they are first asked for: there may be 86,400 of them.
    """

    def __init__(self, chosen: tuple[int, ...] | range | Product | ChosenSlots) -> None:
        self._chosen = chosen
        self.size = chosen.size if isinstance(chosen, Product | ChosenSlots) else len(chosen)

    @cached_property
    def seconds(self) -> tuple[int, ...] | range:
        """Return them one by one."""
        chosen = self._chosen
        return chosen.numbers() if isinstance(chosen, Product | ChosenSlots) else chosen

    @cached_property
    def minutes(self) -> tuple[PatternMinutes, ...]:
        """Return them by minute."""
        found: dict[int, list[int]] = defaultdict(list)
        for each in self.seconds:
            found[each % 60].append(each // 60)
        return tuple(
            PatternMinutes(second, tuple((minute, 1) for minute in minutes), 0)
            if len(minutes) <= FEW
            else PatternMinutes(second, (), pack(dict.fromkeys(minutes, 1)))
            for second, minutes in found.items()
        )


day_times: Final = lru_cache(REMEMBERED)(DayTimes)


class DaySet:
    """The days of a rule, remembered for the two years that were asked for last."""

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


class CompiledRule:
    """A rule and, where all of its days have the same seconds, these days and seconds."""

    def __init__(self, plan: RecurrencePlan) -> None:
        self._given = plan
        self.fraction = _fraction(plan)
        """By how much each of its instants comes after those of `plan`, which are whole seconds."""
        self.plan = plan = _earlier(plan, self.fraction) if self.fraction else plan
        self.timezone = "UTC" if plan.rule.every_seconds else plan.rule.timezone
        self.last: datetime | None = None
        self.steps: tuple[int, int] | None = None
        """Origin and length of a plain interval, in seconds since the epoch."""
        self.days: DaySet | None = None
        self.times = day_times(())
        try:
            found = self._interval() if plan.rule.every_seconds else self._walked()
        except RefusedError:
            found = None
        if found is not None:
            self.days, self.times = found

    def __reduce__(self) -> tuple[object, ...]:
        """Let another process compile the rule for itself."""
        return CompiledRule, (self._given,)

    def _walked(self) -> tuple[DaySet, DayTimes] | None:
        walk = daily_walk(self.plan)
        if walk is None or walk.seconds is None:
            return None
        self.last = last_time(self.plan)
        rule, calendar = self.plan.rule, self.plan.calendar
        # Expressions of cron whose days are written alike share them.
        days = walk if rule.cron is None or walk.days is None else walk.days
        return _walk_days(days, rule.exclude_dates, calendar, rule.roll), day_times(walk.seconds)

    def is_regular(self, until: datetime) -> bool:
        """Return whether its days are known, and no COUNT or UNTIL ends it before an instant."""
        goes_on = self.last is None or self.last >= until.replace(tzinfo=None) + _NEAR
        return self.days is not None and goes_on

    def _interval(self) -> tuple[DaySet, DayTimes] | None:
        rule = self.plan.rule
        every, origin = rule.every_seconds or 0, rule.start_at or EPOCH
        if self.plan.calendar is not None or rule.exclude_dates:
            return None
        self.steps = int(origin.timestamp()), every
        return _interval_days(*self.steps)


def _fraction(plan: RecurrencePlan) -> timedelta:
    """Return the part of a second at which a plain interval begins, and so each of its instants."""
    rule = plan.rule
    plain = rule.every_seconds and plan.calendar is None and not rule.exclude_dates
    begin = rule.start_at if plain else None
    return timedelta(microseconds=begin.microsecond if begin else 0)


def _earlier(plan: RecurrencePlan, part: timedelta) -> RecurrencePlan:
    rule = plan.rule
    begin, end = (None if at is None else at - part for at in (rule.start_at, rule.end_at))
    return plan._replace(rule=msgspec.structs.replace(rule, start_at=begin, end_at=end))


def _interval_days(origin: int, every: int) -> tuple[DaySet, DayTimes] | None:
    day, second = divmod(origin, SECONDS_A_DAY)
    if SECONDS_A_DAY % every == 0:
        return _every_days(1, 0), day_times(range(second % every, SECONDS_A_DAY, every))
    if every % SECONDS_A_DAY == 0:
        return _every_days(every // SECONDS_A_DAY, EPOCH_DAY + day), day_times((second,))
    return None


@lru_cache(REMEMBERED)
def _every_days(interval: int, day: int) -> DaySet:
    def bits(first: int, count: int) -> int:
        if interval == 1:
            return (1 << count) - 1
        return sum(1 << at for at in range((day - first) % interval, count, interval))

    return DaySet(bits)


@lru_cache(REMEMBERED)
def _walk_days(
    days: Walk | Days, excluded: tuple[date, ...], calendar: Calendar | None, roll: Roll
) -> DaySet:
    def bits(first: int, count: int) -> int:
        before = first - MAX_ROLL_DAYS
        found = _long(days.day_bits, before, count + 2 * MAX_ROLL_DAYS)
        return _open(excluded, calendar, roll, found, before) >> MAX_ROLL_DAYS & (1 << count) - 1

    return DaySet(bits)


def _long(within: DayBits, first: int, count: int) -> int:
    """Return the bits of more days than are told at once, as far as rules go."""
    bits = 0
    for at in range(0, min(count, END - first), YEAR_DAYS):
        bits |= within(first + at, min(YEAR_DAYS, count - at)) << at
    return bits


def _open(
    excluded: Sequence[date], calendar: Calendar | None, roll: Roll, bits: int, first: int
) -> int:
    """Return the days on which the occurrences of these days run, after calendar and exclusions."""
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


class ClockChange:
    """The days around a change of the clock; seconds are counted from the midnight before `day`.

    From `unusual_from` until `unusual_until`, on the wall clock, times are not as usual.
    """

    def __init__(self, position: ZoneInfo, change: OffsetChange) -> None:
        self._position = position
        around = change.size + timedelta(minutes=1)
        local = change.at.replace(tzinfo=None)
        self._unusual = tuple(sorted(local + each for each in (change.before, change.after)))
        """Between these, on the wall clock, times are left out or repeated."""
        self._from = local + min(change.before, change.after) - around
        self._until = local + max(change.before, change.after) + around
        self.day = self._from.toordinal()
        self.size = self._until.toordinal() - self.day + 1
        self._midnight = datetime.combine(date.fromordinal(self.day - 1), time())
        self._before, self._after = (
            int(each.total_seconds()) for each in (change.before, change.after)
        )
        self.begin, self.end = (
            (zone.instant(each, zone.offsets(position, each)[0]) - EPOCH) // _SECOND
            for each in (self._at(1, 0), self._at(1 + self.size, 0))
        )
        self.origin = (self.day - 1 - EPOCH_DAY) * SECONDS_A_DAY
        self._usual = [self._usual_on(place) for place in range(self.size)]

    def _at(self, days: int, seconds: int) -> datetime:
        return self._midnight + timedelta(days, seconds)

    def _usual_on(self, number: int) -> tuple[int, int]:
        """Return the seconds of a day between which times have the offset of its noon."""
        midnight, noon = self._at(1 + number, 0), self._at(1 + number, NOON)
        if noon >= self._until:
            return max(0, (self._until - midnight) // _SECOND), SECONDS_A_DAY
        return 0, (self._from - midnight) // _SECOND if noon < self._from else 0

    def spares(self, bits: int, times: DayTimes) -> bool:
        """Return whether all times of some of these days have the offsets of the days' noons."""
        first, last = times.seconds[0], times.seconds[-1]
        return all(
            low <= first and last < high
            for place, (low, high) in enumerate(self._usual)
            if bits >> place & 1
        )

    def times(self, bits: int, times: DayTimes, dst: Dst) -> DayTimes:
        """Return when a rule runs that has times on some of these days, as seconds in UTC."""
        found: set[int] = set()
        seconds = times.seconds
        for place in range(1, 1 + self.size):
            if not bits >> place - 1 & 1:
                continue
            midnight = self._at(place, 0)
            low, high = (
                bisect_left(seconds, -((midnight - each) // _SECOND)) for each in self._unusual
            )
            before, after = (place * SECONDS_A_DAY - each for each in (self._before, self._after))
            found.update(before + second for second in seconds[:low])
            for origin in self._meanings(before, after, dst):
                found.update(origin + second for second in seconds[low:high])
            found.update(after + second for second in seconds[high:])
        # Those that fall onto one instant run once.
        return day_times(tuple(sorted(found)))

    def _meanings(self, before: int, after: int, dst: Dst) -> Sequence[int]:
        """Return by which clocks a time runs that this change leaves out or repeats."""
        if self._before < self._after:
            left_out = {Gap.SKIP: (), Gap.SHIFT_BACK: (after,)}
            return left_out.get(dst.gap or Gap.SHIFT_FORWARD, (before,))
        repeated = {Repeated.SECOND: (after,), Repeated.BOTH: (before, after)}
        return repeated.get(dst.repeated or Repeated.FIRST, (before,))


@lru_cache(maxsize=2 * REMEMBERED)
def changed_times(change: ClockChange, bits: int, times: DayTimes, dst: Dst) -> DayTimes:
    """Return when a rule runs on the days around a change of the clock."""
    return change.times(bits, times, dst)


@lru_cache(maxsize=512)
def clock_changes(timezone: str, first: int, count: int) -> tuple[ClockChange, ...]:
    """Return the changes of the clock between some days."""
    position, found = zone.get(timezone), []
    at = datetime.combine(date.fromordinal(first), time(), UTC) - _DAY
    until = at + timedelta(days=count + 2)
    while at < until:
        span = zone.span(position, at)
        if span.closed is not None and span.end < until:
            found.append(_clock_change(timezone, span.closed))
        at = span.end
    return tuple(found)


@lru_cache(maxsize=4096)
def _clock_change(timezone: str, change: OffsetChange) -> ClockChange:
    return ClockChange(zone.get(timezone), change)


@lru_cache(maxsize=512)
def noon_offsets(timezone: str, first: int, count: int) -> tuple[int, ...]:
    """Return the offset from UTC of each day's noon, in seconds."""
    position = zone.get(timezone)
    noons = (datetime.combine(date.fromordinal(first + at), time(12)) for at in range(count))
    return tuple(int(zone.offsets(position, noon)[0].total_seconds()) for noon in noons)
