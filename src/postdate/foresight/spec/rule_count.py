"""Count the occurrences of many rules by minute, by arithmetic and not one after the other.

The recurrence engine says on which days of UTC a rule runs, and at which seconds of them. Rules
with the same days are added into one pattern, once for all windows of a year. For a window the
patterns are laid onto its days. Only rules whose days differ are followed occurrence by occurrence.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from itertools import compress
from typing import Final, NamedTuple

from postdate.core.work import spend
from postdate.foresight.spec.minutes import MARGIN_DAYS, MinuteGrid
from postdate.recurrence.compiled import EPOCH_DAY, CompiledRule
from postdate.recurrence.plan import occurrences
from postdate.recurrence.rule import EPOCH, SECONDS_A_DAY
from postdate.recurrence.run_days import LOOK_DAYS, MINUTE_BITS, PatternMinutes, RunDays, pack
from postdate.words.error import RefusedError

STEP_LIMIT: Final = 50_000
"""How many occurrences are found one by one; rules beyond that are left out, and told."""

INTERVAL_LIMIT: Final = 1_000_000
"""How many occurrences of intervals that fit into no day are added one by one."""

STEP_WORK: Final = 10
RULE_WORK: Final = 40
"""What following a rule by one occurrence, and adding it to a sum, count for an allowance."""

MAX_GROUPS: Final = 2 * LOOK_DAYS
"""How many sets of days a sum keeps apart; if there are more, each day is a set of its own."""

GROUPS_AT_ONCE: Final = 512
"""How many sets of days are laid out together: days that are in the same sets are added once."""

_AS_BITS: Final = bytes.maketrans(b"01", b"\x00\x01")
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


def run_seconds(rule: CompiledRule, after: datetime, until: datetime) -> Iterator[int]:
    """Return when a regular rule runs after one instant and before another, in no order.

    As seconds since the epoch. The rule must be regular until then.
    """
    low, high = _bounds(rule, after, until)
    first, last = low // SECONDS_A_DAY, high // SECONDS_A_DAY
    if low >= high:
        return
    for days, found in _cut_days(rule, EPOCH_DAY + first, last + 1 - first, (low, high)):
        spend(days.bit_count() * len(found.seconds) // 8)
        for day in _set_bits(days):
            midnight = (first + day) * SECONDS_A_DAY
            yield from (midnight + second for second in found.seconds)


def _bounds(rule: CompiledRule, after: datetime, until: datetime) -> tuple[int, int]:
    """Return the seconds since the epoch between which a rule runs after and before instants."""
    begin, end = rule.plan.rule.start_at or EPOCH, rule.plan.rule.end_at
    low = _second_from(max(after + _TICK, begin))
    return low, _second_from(until if end is None else min(until, end + _TICK))


def _second_from(at: datetime) -> int:
    """Return the first whole second that is not before an instant, since the epoch."""
    return -((EPOCH - at) // _SECOND)


def _set_bits(bits: int) -> Iterator[int]:
    while bits:
        yield (bits & -bits).bit_length() - 1
        bits &= bits - 1


def _cut_days(
    rule: CompiledRule, first: int, count: int, bounds: tuple[int, int]
) -> Iterator[RunDays]:
    """Return what a rule does on some days, cut to what lies between two seconds."""
    origin = (first - EPOCH_DAY) * SECONDS_A_DAY
    low, high = (min(max(0, at - origin), count * SECONDS_A_DAY) for at in bounds)
    (begin, after), (end, before) = divmod(low, SECONDS_A_DAY), divmod(high, SECONDS_A_DAY)
    whole = (1 << end) - 1 >> begin + (after > 0) << begin + (after > 0)
    edges = ({begin} if after else set()) | ({end} if before else set())
    for days, found in rule.run_days(first, count):
        if days & whole:
            yield RunDays(days & whole, found)
        for day in edges:
            if days >> day & 1 and low < high:
                least, most = after if day == begin else 0, before if day == end else SECONDS_A_DAY
                yield RunDays(1 << day, found.between(least, most))


class RuleSum:
    """Rules added up by their days, for windows of a year from `since` on."""

    def __init__(self, since: datetime) -> None:
        self.since = since
        self._first = since.toordinal() - MARGIN_DAYS
        self._until = since + timedelta(days=LOOK_DAYS)
        self.groups: dict[int, int] = {}
        """Packed counts of a day, by the days to which they belong: bits from the first day on."""
        self.others: Counter[CountedRule] = Counter()

    def covers(self, begin: datetime, until: datetime) -> bool:
        """Return whether a window lies in the days of which this knows."""
        return self.since <= begin and until.toordinal() < self._first + LOOK_DAYS

    def is_near(self, begin: datetime) -> bool:
        """Return whether a window begins before the last of these days."""
        return begin < self._until

    @property
    def bytes(self) -> int:
        """Return how much memory the counts take."""
        return sum(packed.bit_length() // 8 for packed in self.groups.values())

    def changed(
        self, added: Iterable[CountedRule], removed: Iterable[CountedRule] = ()
    ) -> "RuleSum":
        """Return the sum with more and without some rules; this one stays as it is."""
        new = RuleSum(self.since)
        new.groups, new.others = self.groups.copy(), self.others.copy()
        for rules, sign in ((added, 1), (removed, -1)):
            regular = []
            for rule, weight in Counter(rules).items():
                if rule.max_runs is None and rule.rule.is_regular(self._until):
                    regular.append((rule, weight))
                else:
                    new.others[rule] += sign * weight
            for at in range(0, len(regular), MAX_GROUPS):
                patterns = self._patterns(regular[at : at + MAX_GROUPS])
                new._fold({days: sign * each.packed() for days, each in patterns.items()})
        new.others = +new.others
        return new

    def _patterns(self, rules: Iterable[tuple[CountedRule, int]]) -> dict[int, "_Pattern"]:
        """Return what rules do, by the days on which they do it."""
        patterns: dict[int, _Pattern] = defaultdict(_Pattern)
        for rule, weight in rules:
            spend(RULE_WORK)
            bounds = _bounds(rule.rule, rule.handled, self._until)
            for days, found in _cut_days(rule.rule, self._first, LOOK_DAYS, bounds):
                patterns[days].add(found.minutes, rule.shift, weight)
        return patterns

    def _fold(self, counts: Mapping[int, int]) -> None:
        """Add packed counts, and keep the groups from growing with the number of rules."""
        for days, packed in counts.items():
            self.groups[days] = self.groups.get(days, 0) + packed
        if len(self.groups) > MAX_GROUPS:
            self.groups = {1 << day: packed for day, packed in self._by_day(0, LOOK_DAYS).items()}

    def count(self, grid: MinuteGrid, budget: WalkBudget) -> int:
        """Add all occurrences to a grid; return how many rules would take too long."""
        first, count = grid.first_day, grid.last_day - grid.first_day + 1
        for day, packed in self._by_day(first - self._first, count).items():
            grid.add_day(first + day, packed)
        walk = RuleWalk(grid, budget)
        for rule, weight in self.others.items():
            walk.add(rule, weight)
        return walk.left_out

    def _by_day(self, skipped: int, count: int) -> dict[int, int]:
        """Return the packed counts of some days.

        In most weeks the same groups have a Monday: what days have in common is added up once.
        """
        mask, found = (1 << count) - 1, dict[int, int]()
        wanted = [
            (days, packed)
            for each, packed in self.groups.items()
            if (days := each >> skipped & mask)
        ]
        wanted.sort(key=lambda group: group[0].bit_count())
        for at in range(0, len(wanted), GROUPS_AT_ONCE):
            groups = wanted[at : at + GROUPS_AT_ONCE]
            counts = [packed for _, packed in groups]
            rows = [
                f"{days | mask + 1:b}"[:0:-1].encode().translate(_AS_BITS) for days, _ in groups
            ]
            alike: dict[tuple[int, ...], list[int]] = defaultdict(list)
            for day, has in enumerate(zip(*rows, strict=True)):
                alike[has].append(day)
            for has, same in alike.items():
                spend(1 + sum(has))
                total = sum(compress(counts, has))
                for day in same if total else ():
                    found[day] = found.get(day, 0) + total
        return found


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
        after = max(rule.handled, self._grid.begin - rule.shift - _TICK)
        low, high = _bounds(rule.rule, after, self._grid.until - rule.shift)
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
            for minute in few:
                self._few[minute + ahead] += weight
            if packed:
                self._packed += weight * packed << ahead * MINUTE_BITS

    def packed(self) -> int:
        """Return all of it as one integer."""
        return self._packed + pack(self._few)
