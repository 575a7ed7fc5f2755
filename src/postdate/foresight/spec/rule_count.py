"""Count the occurrences of many rules by minute, by arithmetic and not one after the other.

Rules with the same days and zone are added into one pattern, once for all windows of a year. For a
window the patterns are laid onto its days. A day on which a rule begins or ends, and the days
around a change of the clock, have patterns of their own. Only rules whose days differ are followed
occurrence by occurrence.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import takewhile
from typing import Final, NamedTuple

from postdate.core.work import spend
from postdate.foresight.spec.minutes import DAY_MINUTES, MARGIN_DAYS, MINUTE_BITS, MinuteGrid, pack
from postdate.foresight.spec.regular import (
    EPOCH_DAY,
    LOOK_DAYS,
    ClockChange,
    CompiledRule,
    DayTimes,
    PatternMinutes,
    changed_times,
    clock_changes,
    noon_offsets,
)
from postdate.recurrence import zone
from postdate.recurrence.plan import RecurrencePlan, occurrences
from postdate.recurrence.rule import EPOCH, SECONDS_A_DAY
from postdate.words.error import RefusedError

STEP_LIMIT: Final = 50_000
"""How many occurrences are found one by one; rules beyond that are left out, and told."""

INTERVAL_LIMIT: Final = 1_000_000
"""How many occurrences of intervals that fit into no day are added one by one."""

STEP_WORK: Final = 10
RULE_WORK: Final = 40
"""What following a rule by one occurrence, and adding it to a sum, count for an allowance."""

WEEK_DAYS: Final = 7
WEEK: Final = (1 << WEEK_DAYS) - 1
ALL_DAYS: Final = (1 << LOOK_DAYS) - 1
EVERY_WEEK: Final = sum(1 << day for day in range(0, LOOK_DAYS, WEEK_DAYS))

_TICK: Final = timedelta(microseconds=1)
_SECOND: Final = timedelta(seconds=1)


class CountedRule(NamedTuple):
    """A rule as a schedule has it; each occurrence is due `shift` after its instant."""

    rule: CompiledRule
    shift: timedelta = timedelta(0)
    handled: datetime = EPOCH
    """What is scheduled up to here is stored already."""
    max_runs: int | None = None
    """How many runs are left to it."""


class WalkBudget:
    """The steps that are left to all rules of one question that are followed one by one."""

    def __init__(self, steps: int = STEP_LIMIT, intervals: int = INTERVAL_LIMIT) -> None:
        self.steps = steps
        self.intervals = intervals


class DayPart(NamedTuple):
    """Some days of a rule, and the seconds that it has on each of them.

    Days are bits from the first one asked for, in the rule's zone. Around a change of the clock
    the seconds are in UTC, from the midnight at which `change` begins to count.
    """

    days: int
    times: DayTimes
    change: ClockChange | None = None
    less: bool = False
    """Whether it is to be taken away again from the others."""


Bounds = tuple[datetime | None, datetime | None]
"""Not before the one, and before the other."""


def day_parts(rule: CompiledRule, first: int, count: int, bounds: Bounds) -> Iterator[DayPart]:
    """Return what a regular rule does on some days, as far as it lies between two instants."""
    if rule.days is None:
        return
    bits, times = rule.days.within(first, count), rule.times
    if not bits or not times.size:
        return
    low, high = (None if at is None else second_from(at) for at in bounds)
    for change in clock_changes(rule.timezone, first, count):
        place = change.day - first
        near = (bits >> place if place >= 0 else bits << -place) & (1 << change.size) - 1
        whole = (low is None or low <= change.begin) and (high is None or change.end <= high)
        if near and not (whole and change.spares(near, times)):
            days = near << place if place >= 0 else near >> -place
            changed = changed_times(change, near, times, rule.plan.dst)
            if whole:
                # Left among its days, it shares a pattern with rules that this change spares.
                yield DayPart(days, times, less=True)
            else:
                changed = _between(changed, low, high, change.origin)
                bits &= ~days
            yield DayPart(days, changed, change)
    if low is not None or high is not None:
        parts, bits = _ends(rule, first, bits, bounds)
        yield from parts
    yield DayPart(bits, times)


def run_seconds(rule: CompiledRule, after: datetime, until: datetime) -> Iterator[int]:
    """Return when a regular rule runs after one instant and before another, in no order.

    As seconds since the epoch. The rule must be regular until then.
    """
    begin, end = rule.plan.rule.start_at or EPOCH, rule.plan.rule.end_at
    low = second_from(max(after + _TICK, begin))
    high = second_from(until if end is None else min(until, end + _TICK))
    first = low // SECONDS_A_DAY + EPOCH_DAY - 1
    count = high // SECONDS_A_DAY + EPOCH_DAY + 2 - first
    if low >= high:
        return
    offsets = noon_offsets(rule.timezone, first, count)
    changed = 0
    for days, times, change, less in day_parts(rule, first, count, (None, None)):
        if less:
            changed |= days
            continue
        midnights = (
            [change.origin]
            if change is not None
            else [
                (first + place - EPOCH_DAY) * SECONDS_A_DAY - offsets[place]
                for place in _set_bits(days & ~changed)
            ]
        )
        spend(len(midnights) * times.size // 8)
        for midnight in midnights:
            for second in times.seconds:
                if low <= midnight + second < high:
                    yield midnight + second


def second_from(at: datetime) -> int:
    """Return the first whole second that is not before an instant, since the epoch."""
    return -((EPOCH - at) // _SECOND)


def walked_times(plan: RecurrencePlan, after: datetime, until: datetime) -> Iterator[datetime]:
    """Return when any rule runs, one after the other."""
    coming = takewhile(lambda each: each.scheduled_for < until, occurrences(plan, after))
    return (each.scheduled_for for each in coming if each.skip is None)


def _set_bits(bits: int) -> Iterator[int]:
    while bits:
        yield (bits & -bits).bit_length() - 1
        bits &= bits - 1


def _between(times: DayTimes, low: int | None, high: int | None, origin: int = 0) -> DayTimes:
    seconds = times.seconds
    begin = 0 if low is None else bisect_left(seconds, low - origin)
    end = len(seconds) if high is None else bisect_left(seconds, high - origin)
    return DayTimes(seconds[begin:end])


def _ends(rule: CompiledRule, first: int, bits: int, bounds: Bounds) -> tuple[list[DayPart], int]:
    """Return the days on which a rule begins and ends by themselves, and the days between them."""
    begin, end = bounds
    low_day, low = (-1, 0) if begin is None else _local(rule, begin, first)
    high_day, high = (bits.bit_length(), 0) if end is None else _local(rule, end, first)
    parts = [
        DayPart(
            1 << day,
            _between(
                rule.times,
                low if day == low_day else None,
                high if day == high_day else None,
            ),
        )
        for day in {low_day, high_day}
        if day >= 0 and low_day <= day <= high_day and bits >> day & 1
    ]
    after = max(0, low_day + 1)
    return parts, bits >> after << after & (1 << max(0, high_day)) - 1


def _local(rule: CompiledRule, at: datetime, first: int) -> tuple[int, int]:
    """Return the local day of an instant, and its first whole second not before it."""
    local = zone.to_local(zone.get(rule.timezone), at)
    midnight = local.replace(hour=0, minute=0, second=0, microsecond=0)
    return local.toordinal() - first, -((midnight - local) // _SECOND)


class _Group(NamedTuple):
    """What is laid out together: some days of a zone, or the days around a change of its clock."""

    clock: str | ClockChange
    days: int = 0
    less: bool = False


class RuleSum:
    """Rules added up by their days, for all windows from `since` on, for two years."""

    def __init__(self, since: datetime) -> None:
        self.since = since
        self._first = since.toordinal() - MARGIN_DAYS
        self._until = since + timedelta(days=LOOK_DAYS)
        self.groups: dict[_Group, int] = {}
        self.others: Counter[CountedRule] = Counter()

    def covers(self, begin: datetime, until: datetime) -> bool:
        """Return whether a window lies in the days of which this knows."""
        return self.since <= begin and until.toordinal() + MARGIN_DAYS < self._first + LOOK_DAYS

    def is_near(self, begin: datetime) -> bool:
        """Return whether a window begins before the last of these days."""
        return begin < self._until

    def changed(
        self, added: Iterable[CountedRule], removed: Iterable[CountedRule] = ()
    ) -> "RuleSum":
        """Return the sum with more and without some rules; this one stays as it is."""
        groups, others = self.groups.copy(), self.others.copy()
        for rules, sign in ((added, 1), (removed, -1)):
            patterns: dict[_Group, _Pattern] = defaultdict(_Pattern)
            for rule, weight in Counter(rules).items():
                spend(RULE_WORK)
                if rule.max_runs is None and rule.rule.is_regular(self._until):
                    self._add(rule, weight, patterns)
                else:
                    others[rule] += sign * weight
            for group, pattern in patterns.items():
                groups[group] = groups.get(group, 0) + sign * pattern.packed()
        new = RuleSum(self.since)
        new.groups, new.others = groups, +others
        return new

    def _add(self, rule: CountedRule, weight: int, patterns: dict[_Group, "_Pattern"]) -> None:
        timezone, bounds = rule.rule.timezone, _bounds(rule, self.since, self._until)
        for days, times, change, less in day_parts(rule.rule, self._first, LOOK_DAYS, bounds):
            group = _Group(timezone, days, less) if change is None else _Group(change)
            patterns[group].add(times.minutes, rule.shift, weight)

    def plus(self, other: "RuleSum") -> "RuleSum":
        """Return the sum of the rules of two that begin at the same instant."""
        new = RuleSum(self.since)
        new.groups, new.others = self.groups.copy(), self.others + other.others
        for group, packed in other.groups.items():
            new.groups[group] = new.groups.get(group, 0) + packed
        return new

    def count(self, grid: MinuteGrid, budget: WalkBudget) -> int:
        """Add all occurrences to a grid; return how many rules would take too long."""
        first, count = grid.first_day, grid.last_day - grid.first_day + 1
        skipped, mask = first - self._first, (1 << count) - 1
        weeks: dict[str, list[int]] = defaultdict(lambda: [0] * WEEK_DAYS)
        for (clock, days, less), packed in self.groups.items():
            spend(1 if days == _every_week(days) else count)
            if not isinstance(clock, str):
                grid.add_days([clock.day - 1], 0, packed)
            elif not less and days == _every_week(days):
                for day in _set_bits(days & WEEK):
                    weeks[clock][(day - skipped) % WEEK_DAYS] += packed
            else:
                offsets = noon_offsets(clock, first, count)
                alike: dict[int, list[int]] = defaultdict(list)
                for day in _set_bits(days >> skipped & mask):
                    alike[offsets[day]].append(first + day)
                for offset, own in alike.items():
                    grid.add_days(own, -offset // 60, packed, less=less)
        _lay_weeks(grid, weeks)
        walk = RuleWalk(grid, budget)
        for rule, weight in self.others.items():
            walk.add(rule, weight)
        return walk.left_out


def _every_week(days: int) -> int:
    """Return the days of the first week and all that lie some weeks later."""
    return (days & WEEK) * EVERY_WEEK & ALL_DAYS


def _lay_weeks(grid: MinuteGrid, weeks: Mapping[str, Sequence[int]]) -> None:
    """Add what zones do in every week: as long as no clock changes, one pattern for a weekday."""
    first, count = grid.first_day, grid.last_day - grid.first_day + 1
    offsets = [noon_offsets(timezone, first, count) for timezone in weeks]
    alike: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for place, *own in zip(range(count), *offsets, strict=True):
        alike[place % WEEK_DAYS, *own].append(first + place - 1)
    for (weekday, *own), days in alike.items():
        packed = sum(
            week[weekday] << (DAY_MINUTES - offset // 60) * MINUTE_BITS
            for week, offset in zip(weeks.values(), own, strict=True)
        )
        grid.add_days(days, 0, packed)


def _bounds(rule: CountedRule, since: datetime, until: datetime) -> Bounds:
    """Return between which instants a rule runs, where that is less than from since until."""
    begin, end = rule.rule.plan.rule.start_at or EPOCH, rule.rule.plan.rule.end_at
    begin = max(begin, rule.handled + _TICK)
    ends = end is not None and end + rule.shift < until
    return begin if begin + rule.shift > since else None, end + _TICK if end and ends else None


class RuleWalk:
    """Adds the occurrences of rules to a grid one by one, as far as the budget goes."""

    def __init__(self, grid: MinuteGrid, budget: WalkBudget) -> None:
        self._grid = grid
        self._left = budget
        self.left_out = 0
        """How many schedules were left out, because finding their occurrences takes too long."""

    def add(self, rule: CountedRule, weight: int) -> None:
        """Add what a rule that `weight` schedules have has to come."""
        whole = rule.rule.steps is not None and rule.max_runs is None
        done = self._add_interval(rule, weight) if whole else self._add_by_steps(rule, weight)
        self.left_out += 0 if done else weight

    def _add_interval(self, rule: CountedRule, weight: int) -> bool:
        """Add an interval that fits into no day."""
        origin, every = rule.rule.steps or (0, 1)
        begin, end = _bounds(rule, self._grid.begin, self._grid.until)
        begin = begin or self._grid.begin - rule.shift
        end = end or self._grid.until - rule.shift
        low, high = second_from(begin), second_from(end)
        instants = range(low + (origin - low) % every, high, every)
        if self._left.intervals < len(instants):
            return False
        self._left.intervals -= len(instants)
        spend(len(instants) // 8)
        ahead = (EPOCH - self._grid.begin + rule.shift) // _SECOND
        self._grid.add_seconds(range(instants.start + ahead, instants.stop + ahead, every), weight)
        return True

    def _add_by_steps(self, rule: CountedRule, weight: int) -> bool:
        runs, after = rule.max_runs, max(rule.handled, self._grid.begin - rule.shift - _TICK)
        if runs is not None:
            after = rule.handled
        found: list[datetime] = []
        try:
            for each in occurrences(rule.rule.plan, after):
                due_at = each.scheduled_for + rule.shift
                if due_at >= self._grid.until or runs == 0:
                    break
                if self._left.steps <= 0:
                    return False
                self._left.steps -= 1
                spend(STEP_WORK)
                if each.skip is None:
                    runs = None if runs is None else runs - 1
                    found.append(due_at)
        except RefusedError:
            return False
        # Half of a rule would look like one that ends: it is counted completely, or reported as
        # left out.
        for due_at in found:
            self._grid.add(due_at, weight)
        return True


class _Pattern:
    """What many rules do on one day, by minute."""

    def __init__(self) -> None:
        self._few: Counter[int] = Counter()
        self._packed = 0

    def add(self, minutes: tuple[PatternMinutes, ...], shift: timedelta, weight: int) -> None:
        """Add the times of one day after the shift of a rule that `weight` schedules have."""
        seconds = shift // _SECOND
        for second, few, packed in minutes:
            ahead = (second + seconds) // 60
            for minute, count in few:
                self._few[minute + ahead] += weight * count
            if packed:
                self._packed += weight * packed << ahead * MINUTE_BITS

    def packed(self) -> int:
        """Return all of it as one integer."""
        return self._packed + pack(self._few)
