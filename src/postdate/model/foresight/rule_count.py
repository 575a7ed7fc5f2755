"""Count the occurrences of many rules by minute, by arithmetic and not one after the other.

A rule of cron or rrule is a set of days and, on each, the same seconds. Rules with the same days
and zone are added into one pattern, which is then laid onto each of the days. Where a clock
changes, and where a rule begins or ends within the window, its occurrences are found one by one.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from itertools import takewhile
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

from postdate.model.error import RefusedError
from postdate.model.foresight.minutes import MINUTE_BITS, MinuteGrid, pack
from postdate.model.recurrence import calendar as calendars
from postdate.model.recurrence import zone
from postdate.model.recurrence.calendar import MAX_ROLL_DAYS, Roll
from postdate.model.recurrence.plan import RecurrencePlan, daily_walk, occurrences
from postdate.model.recurrence.zone import OffsetChange
from postdate.model.schedule.schedule import EPOCH, SECONDS_A_DAY

STEP_LIMIT: Final = 50_000
"""How many occurrences are found one by one; rules beyond that are left out, and told."""

FEW: Final = 32
"""So few minutes are sooner added one by one than as an integer that has room for every minute."""

_TICK: Final = timedelta(microseconds=1)
_DAY: Final = timedelta(days=1)
_SECOND: Final = timedelta(seconds=1)


class CountedRule(NamedTuple):
    """A rule that `weight` schedules have; each occurrence is due `shift` after its instant."""

    plan: RecurrencePlan
    shift: timedelta = timedelta(0)
    weight: int = 1
    handled: datetime = EPOCH
    """What is scheduled up to here is stored already."""
    max_runs: int | None = None
    """How many runs are left to it."""


class _DayGroup(NamedTuple):
    """What is laid out together: a zone and, from the grid's first day on, a bit for each day."""

    timezone: str
    bits: int


class RuleCount:
    """Adds rules to a grid."""

    def __init__(
        self, grid: MinuteGrid, since: datetime | None = None, step_limit: int = STEP_LIMIT
    ) -> None:
        self._grid = grid
        # A grid of whole days serves all windows in them that begin after `since`, the present.
        self._since = since or grid.begin
        self._days = grid.last_day - grid.first_day + 1
        self._groups: dict[_DayGroup, _Pattern] = defaultdict(_Pattern)
        self._changed: dict[_Change, _Pattern] = defaultdict(_Pattern)
        self._steps_left = step_limit
        self.left_out = 0
        """How many schedules were left out, because finding their occurrences takes too long."""

    def add(self, rules: Iterable[CountedRule]) -> None:
        """Add what rules have to come within the window."""
        for rule in rules:
            if not self._add_regular(rule):
                self._add_by_steps(rule)
        self._lay_out()
        for change, pattern in self._changed.items():
            self._grid.add_day(change.day, 0, pattern.packed())
        self._groups.clear()
        self._changed.clear()

    def _add_regular(self, rule: CountedRule) -> bool:
        """Add a rule whose days all have the same seconds; return False if it is no such rule."""
        plan, grid = rule.plan, self._grid
        if rule.max_runs is not None or not self._spans_window(rule):
            return False
        found = _regular(plan, grid.first_day, self._days)
        if found is None:
            return False
        bits, seconds = found
        timezone = "UTC" if plan.rule.every_seconds else plan.rule.timezone
        for change in _changes(timezone, grid.first_day, self._days):
            if bits & change.bits:
                laid = _on_changed_days(plan, change, bits & change.bits, grid.first_day)
                self._changed[change].add(laid, rule)
                bits &= ~change.bits
        self._groups[_DayGroup(timezone, bits)].add(_by_minute(seconds), rule)
        return True

    def _spans_window(self, rule: CountedRule) -> bool:
        begin, end = rule.plan.rule.start_at, rule.plan.rule.end_at
        begun = (begin or EPOCH) + rule.shift <= self._since
        goes_on = end is None or end + rule.shift >= self._grid.until
        return begun and goes_on and rule.handled + rule.shift < self._since

    def _lay_out(self) -> None:
        """Add the groups of each zone day by day, then lay each day where it is in UTC."""
        by_zone: dict[str, list[int]] = defaultdict(lambda: [0] * self._days)
        for group, pattern in self._groups.items():
            packed, bits, rows = pattern.packed(), group.bits, by_zone[group.timezone]
            while bits:
                rows[(bits & -bits).bit_length() - 1] += packed
                bits &= bits - 1
        first = self._grid.first_day
        for timezone, rows in by_zone.items():
            offsets = _offsets(timezone, first, self._days)
            for place, (packed, offset) in enumerate(zip(rows, offsets, strict=True)):
                if packed:
                    self._grid.add_day(first + place, -offset, packed)

    def _add_by_steps(self, rule: CountedRule) -> None:
        runs, after = rule.max_runs, max(rule.handled, self._since - rule.shift - _TICK)
        if runs is not None:
            after = rule.handled
        if self._steps_left <= 0:
            self.left_out += rule.weight
            return
        try:
            for each in occurrences(rule.plan, after):
                due_at = each.scheduled_for + rule.shift
                if due_at >= self._grid.until or runs == 0:
                    return
                if self._steps_left <= 0:
                    self.left_out += rule.weight
                    return
                self._steps_left -= 1
                if each.skip is None:
                    runs = None if runs is None else runs - 1
                    self._grid.add(due_at, rule.weight)
        except RefusedError:
            self.left_out += rule.weight


@lru_cache(maxsize=16384)
def _regular(plan: RecurrencePlan, first: int, count: int) -> tuple[int, tuple[int, ...]] | None:
    """Return the days of a rule as bits, and the seconds it has on each; None if they differ."""
    if plan.rule.every_seconds:
        return _regular_interval(plan, first, count)
    try:
        walk = daily_walk(plan, datetime.combine(date.fromordinal(first + count), time(), UTC))
        seconds = None if walk is None else walk.seconds
        if walk is None or seconds is None:
            return None
        bits = _bits(walk.day_bits, first - MAX_ROLL_DAYS, count + 2 * MAX_ROLL_DAYS)
    except RefusedError:
        return None
    return _open(plan, bits, first - MAX_ROLL_DAYS) >> MAX_ROLL_DAYS & (1 << count) - 1, seconds


def _bits(within: Callable[[int, int], int], first: int, count: int) -> int:
    """Return the bits of more days than are told at once."""
    half = count // 2
    return within(first, half) | within(first + half, count - half) << half


def _regular_interval(
    plan: RecurrencePlan, first: int, count: int
) -> tuple[int, tuple[int, ...]] | None:
    rule = plan.rule
    every, origin = rule.every_seconds or 0, rule.start_at or EPOCH
    if plan.calendar is not None or rule.exclude_dates or origin.microsecond:
        return None
    since = int((datetime.combine(date.fromordinal(first), time(), UTC) - origin).total_seconds())
    if SECONDS_A_DAY % every == 0:
        return (1 << count) - 1, tuple(range(-since % every, SECONDS_A_DAY, every))
    if every % SECONDS_A_DAY == 0:
        wait = -since % every
        days = range(wait // SECONDS_A_DAY, count, every // SECONDS_A_DAY)
        return sum(1 << day for day in days), (wait % SECONDS_A_DAY,)
    return None


def _open(plan: RecurrencePlan, bits: int, first: int) -> int:
    """Return the days on which the occurrences of these days run, after calendar and exclusions."""
    calendar, roll = plan.calendar, plan.rule.roll
    for excluded in plan.rule.exclude_dates:
        at = excluded.toordinal() - first
        bits &= ~(1 << at) if at >= 0 else -1
    if calendar is None:
        return bits
    size = bits.bit_length()
    opened = _bits(calendars.open_days(calendar, frozenset()).day_bits, first, size) if size else 0
    closed, bits = bits & ~opened, bits & opened
    while closed and roll is not Roll.NONE:
        place = (closed & -closed).bit_length() - 1
        target = calendars.roll_day(calendar, date.fromordinal(first + place), roll)
        if target is not None and target not in plan.rule.exclude_dates:
            bits |= 1 << max(0, target.toordinal() - first)
        closed &= closed - 1
    return bits


class _Minutes(NamedTuple):
    """Those times that lie so many seconds after a whole minute, by minute from a midnight on."""

    second: int
    few: tuple[tuple[int, int], ...]
    """Minutes and counts, where there are few of them."""
    packed: int
    """The counts packed into an integer, where there are many."""


@lru_cache(maxsize=16384)
def _by_minute(seconds: tuple[int, ...]) -> tuple[_Minutes, ...]:
    found: dict[int, Counter[int]] = defaultdict(Counter)
    for each in seconds:
        found[each % 60][each // 60] += 1
    return tuple(
        _Minutes(second, tuple(counts.items()), 0)
        if len(counts) <= FEW
        else _Minutes(second, (), pack(counts))
        for second, counts in found.items()
    )


class _Pattern:
    """What many rules do on one day, by minute."""

    def __init__(self) -> None:
        self._few: Counter[int] = Counter()
        self._packed = 0

    def add(self, minutes: tuple[_Minutes, ...], rule: CountedRule) -> None:
        """Add the times of one day after the shift of a rule, as often as schedules have it."""
        shift = rule.shift // _SECOND
        for second, few, packed in minutes:
            ahead = (second + shift) // 60
            for minute, count in few:
                self._few[minute + ahead] += count * rule.weight
            if packed:
                self._packed += (packed << ahead * MINUTE_BITS) * rule.weight

    def packed(self) -> int:
        """Return all of it as one integer."""
        return self._packed + pack(self._few)


class _Change(NamedTuple):
    """The days around a change of the clock, and the hours in which times are not as usual."""

    day: int
    bits: int
    begin: datetime
    end: datetime
    unusual_from: datetime
    unusual_until: datetime
    position: ZoneInfo


@lru_cache(maxsize=512)
def _offsets(timezone: str, first: int, count: int) -> tuple[int, ...]:
    """Return the offset from UTC of each day's noon, in minutes."""
    position = zone.get(timezone)
    noons = (datetime.combine(date.fromordinal(first + at), time(12)) for at in range(count))
    return tuple(int(zone.offsets(position, noon)[0].total_seconds()) // 60 for noon in noons)


@lru_cache(maxsize=512)
def _changes(timezone: str, first: int, count: int) -> tuple[_Change, ...]:
    """Return the changes of the clock between some days."""
    position, found = zone.get(timezone), []
    at = datetime.combine(date.fromordinal(first), time(), UTC) - _DAY
    until = at + timedelta(days=count + 2)
    while at < until:
        span = zone.span(position, at)
        if span.closed is not None and span.end < until:
            found.append(_change(position, span.closed, first, count))
        at = span.end
    return tuple(found)


def _change(position: ZoneInfo, change: OffsetChange, first: int, count: int) -> _Change:
    around = change.size + timedelta(minutes=1)
    local = change.at.replace(tzinfo=None)
    unusual_from = local + min(change.before, change.after) - around
    unusual_until = local + max(change.before, change.after) + around
    first_day, last_day = unusual_from.toordinal(), unusual_until.toordinal()
    days = range(max(first, first_day), min(first + count, last_day + 1))
    begin, end = (
        datetime.combine(date.fromordinal(day), time()) for day in (first_day, last_day + 1)
    )
    return _Change(
        first_day - 1,
        sum(1 << day - first for day in days),
        zone.instant(begin, zone.offsets(position, begin)[0]),
        zone.instant(end, zone.offsets(position, end)[0]),
        unusual_from,
        unusual_until,
        position,
    )


@lru_cache(maxsize=16384)
def _on_changed_days(
    plan: RecurrencePlan, change: _Change, bits: int, first: int
) -> tuple[_Minutes, ...]:
    """Count a rule on the days around a change of the clock, by minute from `change.day` on."""
    midnight = datetime.combine(date.fromordinal(change.day), time(), UTC)
    found: list[datetime] = []
    for local in _local_times(plan, change, bits, first):
        if change.unusual_from <= local < change.unusual_until:
            found = _between(plan, change.begin, change.end)
            break
        found.append(zone.instant(local, zone.offsets(change.position, local)[0]))
    return _by_minute(tuple((at - midnight) // _SECOND for at in found))


def _local_times(
    plan: RecurrencePlan, change: _Change, bits: int, first: int
) -> Iterator[datetime]:
    walk = daily_walk(plan, change.end)
    while walk is not None and bits:
        day = date.fromordinal(first + (bits & -bits).bit_length() - 1)
        midnight = datetime.combine(day, time())
        yield from (midnight + timedelta(seconds=each) for each in walk.seconds or ())
        bits &= bits - 1


def _between(plan: RecurrencePlan, begin: datetime, end: datetime) -> list[datetime]:
    found = takewhile(lambda each: each.scheduled_for < end, occurrences(plan, begin - _TICK))
    return [each.scheduled_for for each in found if each.skip is None]
