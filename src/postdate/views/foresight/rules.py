"""What schedules have to come, by minute: their rules read once, and counted once a day."""

from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

import msgspec

from postdate.model.error import RefusedError
from postdate.model.foresight.minutes import MinuteGrid, day_grid
from postdate.model.foresight.rule_count import CountedRule, RuleCount
from postdate.model.recurrence.calendar import Calendar
from postdate.model.recurrence.plan import RecurrencePlan
from postdate.model.schedule.rule import plan_of
from postdate.model.schedule.schedule import EPOCH, Definition, Rule, Template, jitter
from postdate.store.connection.database import Connection
from postdate.store.foresight import rule as store
from postdate.store.foresight.rule import ScheduleRule
from postdate.store.schedule import calendar as calendar_store

MAX_RULES: Final = 20_000
"""How many schedules are looked at; of a tenant with more, the rest is told as left out."""

MAX_BOOKS: Final = 256
MAX_COUNTS: Final = 32
"""How many countings are remembered: one of a year has 2 MB for each series."""

MAX_SERIES: Final = 24
OTHERS: Final = "(others)"
"""The name of all series beyond the largest."""

SeriesKey = tuple[bool, str]
"""Whether it is payments, and the name of the lane, destination or tenant."""


class PlannedSchedule(NamedTuple):
    """A schedule with all that decides when it is due."""

    schedule: ScheduleRule
    plan: RecurrencePlan
    jitter_seconds: int


class RuleBook(msgspec.Struct, frozen=True):
    """The schedules of a tenant that go on, and how many could not be read."""

    fingerprint: tuple[object, ...]
    planned: list[PlannedSchedule]
    left_out: int


class CountedSchedules(msgspec.Struct, frozen=True):
    """What the schedules have to come, by minute, in whole days."""

    grids: dict[SeriesKey, MinuteGrid]
    left_out: int
    since: datetime
    """What is due before this was not looked for."""


class Spread(msgspec.Struct, frozen=True):
    """Other jitter for some schedules (all where None), as a question."""

    seconds: int
    schedules: frozenset[UUID] | None = None

    def of(self, schedule_id: UUID, before: int) -> int:
        """Return the jitter that a schedule would have."""
        changed = self.schedules is None or schedule_id in self.schedules
        return self.seconds if changed else before


class RuleBooks:
    """Reads the rules of a tenant, and remembers them until one of them changes."""

    def __init__(self) -> None:
        self._books: OrderedDict[int | None, RuleBook] = OrderedDict()

    async def get(self, connection: Connection, tenant_id: int | None) -> RuleBook:
        """Return the rules as they stand."""
        fingerprint = (tenant_id, *await store.fingerprint(connection, tenant_id))
        known = self._books.get(tenant_id)
        if known is not None and known.fingerprint == fingerprint:
            return known
        rows = await store.load(connection, tenant_id, MAX_RULES + 1)
        book = await _book(connection, rows[:MAX_RULES], fingerprint, len(rows) > MAX_RULES)
        self._books[tenant_id] = book
        if len(self._books) > MAX_BOOKS:
            self._books.popitem(last=False)
        return book


async def _book(
    connection: Connection,
    rows: Sequence[ScheduleRule],
    fingerprint: tuple[object, ...],
    more: bool,  # noqa: FBT001 - whether there are more than are looked at
) -> RuleBook:
    rules = {row.rule_json: _read(row.rule_json) for row in rows}
    names = {
        (row.tenant_id, rule.calendar)
        for row in rows
        if (rule := rules[row.rule_json]) is not None and rule.calendar is not None
    }
    found = await calendar_store.current(connection, names) if names else {}
    calendars = {key: version.calendar for key, version in found.items()}
    planned, left_out = [], int(more)
    for row in rows:
        one = _planned(row, calendars)
        if one is None:
            left_out += 1
        else:
            planned.append(one)
    return RuleBook(fingerprint, planned, left_out)


def _read(text: str) -> Rule | None:
    try:
        return store.rule_of(text)
    except msgspec.MsgspecError:
        return None


def _planned(
    row: ScheduleRule, calendars: dict[tuple[int, str], Calendar]
) -> PlannedSchedule | None:
    try:
        rule, policies = store.rule_of(row.rule_json), store.policies_of(row.policies_json)
        calendar = calendars.get((row.tenant_id, rule.calendar)) if rule.calendar else None
        definition = Definition(rule=rule, template=Template(), policies=policies)
        return PlannedSchedule(row, plan_of(definition, calendar), policies.jitter_seconds)
    except (msgspec.MsgspecError, RefusedError):
        return None


class ScheduleCounts:
    """Counts what schedules have to come, and remembers it for the day."""

    def __init__(self) -> None:
        self._known: OrderedDict[object, CountedSchedules] = OrderedDict()

    def get(
        self,
        book: RuleBook,
        by: str,
        name_of: Callable[[ScheduleRule], str],
        window: tuple[datetime, datetime],
        spread: Spread | None = None,
    ) -> CountedSchedules:
        """Return the counts of the days in which a window lies; runs in a thread of its own."""
        begin, until = window
        key = (book.fingerprint, by, begin.date(), until.date(), spread)
        known = self._known.get(key)
        if known is None or known.since > begin:
            known = count_schedules(book.planned, name_of, begin, until, spread)
            self._known[key] = known
            while len(self._known) > MAX_COUNTS:
                self._known.popitem(last=False)
        return known


def count_schedules(
    planned: Collection[PlannedSchedule],
    name_of: Callable[[ScheduleRule], str],
    begin: datetime,
    until: datetime,
    spread: Spread | None = None,
) -> CountedSchedules:
    """Count what schedules have to come by minute, for each series."""
    grouped: dict[SeriesKey, dict[tuple[object, ...], CountedRule]] = defaultdict(dict)
    series_of = _series(planned, name_of)
    for schedule, plan, jitter_seconds in planned:
        series = series_of(schedule)
        seconds = spread.of(schedule.schedule_id, jitter_seconds) if spread else jitter_seconds
        rule = _counted(schedule, plan, seconds, begin)
        rules = grouped[series]
        key = (id(rule.plan.rule), rule.plan, rule.shift, rule.handled, rule.max_runs)
        same = rules.get(key)
        rules[key] = rule if same is None else same._replace(weight=same.weight + 1)
    grids, left_out = {}, 0
    for series, rules in grouped.items():
        grid = day_grid(begin, until)
        count = RuleCount(grid, begin)
        count.add(rules.values())
        grids[series] = grid
        left_out += count.left_out
    return CountedSchedules(grids, left_out, begin)


def _series(
    planned: Collection[PlannedSchedule], name_of: Callable[[ScheduleRule], str]
) -> Callable[[ScheduleRule], SeriesKey]:
    """Name the series of a schedule; the smallest are one, so that there are not too many."""
    sizes = Counter(
        (each.schedule.payment_json is not None, name_of(each.schedule)) for each in planned
    )
    largest = {series for series, _ in sizes.most_common(MAX_SERIES)}

    def series_of(schedule: ScheduleRule) -> SeriesKey:
        series = (schedule.payment_json is not None, name_of(schedule))
        return series if series in largest else (series[0], OTHERS)

    return series_of


def _counted(
    schedule: ScheduleRule, plan: RecurrencePlan, jitter_seconds: int, begin: datetime
) -> CountedRule:
    shift = jitter(schedule.schedule_id, jitter_seconds)
    runs = plan.rule.max_runs
    # Schedules of one rule count as one where it does not matter how far each has come.
    matters = runs is not None or schedule.handled + shift >= begin
    handled = schedule.handled if matters else EPOCH
    left = None if runs is None else max(0, runs - schedule.runs)
    return CountedRule(plan, shift, 1, handled, left)
