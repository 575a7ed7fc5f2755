"""Future occurrences of schedules by minute; rules are compiled once, until they change."""

import asyncio
import time
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import cached_property, lru_cache
from itertools import accumulate, chain
from typing import Final, Literal, NamedTuple
from weakref import WeakValueDictionary

import msgspec

from postdate.calendar import store as calendar_store
from postdate.core.work import spend
from postdate.database.connection.database import Connection
from postdate.database.connection.off_loop import in_thread
from postdate.foresight.spec.minutes import Counts, MinuteGrid
from postdate.foresight.spec.rule_count import CountedRule, RuleSum, WalkBudget
from postdate.foresight.store import rule as store
from postdate.foresight.store.rule import Fingerprint, ScheduleRule, StoredRule
from postdate.recurrence.calendar import Calendar
from postdate.recurrence.compiled import CompiledRule
from postdate.recurrence.rule import EPOCH, Rule
from postdate.recurrence.run_days import DayTimes
from postdate.schedule.spec.rule import plan_of
from postdate.schedule.spec.schedule import (
    Definition,
    InsufficientFunds,
    PaymentTemplate,
    Policies,
    Template,
    jitter,
)
from postdate.words.error import RefusedError

MAX_BUCKET_RULES: Final = 500
"""Schedules that are read of each of the 64 buckets: with 20,000 schedules, all of them.

If a tenant has more, the rest is reported as left out.
"""

MAX_BOOKED: Final = 40_000
MAX_BOOKS: Final = 64
"""How many schedules, of how many tenants, are remembered: 10,000 with their sums take 70 MB."""

MAX_SUM_BYTES: Final = 160 << 20
"""How much memory the sums of all books may take: all series of one question always fit."""

READ_BUCKETS: Final = 8
"""How many buckets are read at once: the event loop decodes their rows."""

MAX_CARRIED: Final = 16
"""If more buckets have changed, everything is summed again."""

COUNTED_SECONDS: Final = 3600.0
"""For how long the runs of schedules with `max_runs` are taken as they were read.

Later runs are followed one by one, which are many for a rule of every second.
"""

MAX_DAY_TIMES: Final = 500_000
"""How many times of a day, of rules whose times differ, are added up: a second of a processor.

A rule of every second has 86,400 of them; 10,000 rules that run once an hour or less have 40,000.
"""

CELLS_A_STEP: Final = 32
"""How many minutes of a grid count as one step of an allowance."""

By = Literal["total", "lane", "destination", "tenant"]
WAYS: Final[tuple[By, ...]] = ("total", "lane", "destination")
"""What a tenant may ask for."""

MAX_SERIES: Final = 24
OTHERS: Final = "(others)"
"""The name of all series beyond the largest."""

SeriesKey = tuple[bool, str]
"""Whether it is payments, and the name of the lane, destination or tenant."""

_rule: Final = msgspec.json.Decoder(Rule).decode
_policies: Final = msgspec.json.Decoder(Policies).decode
_payment: Final = msgspec.json.Decoder(PaymentTemplate).decode


class PlannedSchedule(NamedTuple):
    """A schedule with all that decides when it is due: `shift` after each instant of its rule."""

    schedule: ScheduleRule
    rule: CompiledRule
    shift: timedelta = timedelta(0)
    jitter_seconds: int = 0
    funds: InsufficientFunds = InsufficientFunds()

    def with_jitter(self, seconds: int) -> "PlannedSchedule":
        """Return the schedule as it would be with another jitter."""
        if seconds == self.jitter_seconds:
            return self
        shift = jitter(self.schedule.schedule_id, seconds) + self.rule.fraction
        return self._replace(shift=shift, jitter_seconds=seconds)


class BookPart(msgspec.Struct, frozen=True):
    """The schedules of one bucket at a fingerprint, and how many were left out."""

    fingerprint: Fingerprint
    planned: list[PlannedSchedule]
    left_out: int
    read_at: float = 0.0

    def serves(self, fingerprint: Fingerprint, at: float) -> bool:
        """Return whether the rules need not be read again."""
        return self.fingerprint == fingerprint and (
            at - self.read_at < COUNTED_SECONDS or not self._counts_runs
        )

    @property
    def _counts_runs(self) -> bool:
        return any(each.rule.plan.rule.max_runs is not None for each in self.planned)


class RuleBook:
    """The active schedules of a tenant, added up, and how many could not be read."""

    def __init__(self, parts: Mapping[int, BookPart], before: "RuleBook | None" = None) -> None:
        self.parts = parts
        found = [planned for each in parts.values() for planned in each.planned]
        self.orders = [each for each in found if each.schedule.payment is not None]
        """The schedules that make payments."""
        self.dense = _dense(found)
        """The times of a day that are too many to be added up: their rules are left out."""
        self.planned = [each for each in found if each.rule.times not in self.dense]
        self.unread = sum(each.left_out for each in parts.values())
        """How many schedules are in no list, because their rules cannot be read."""
        self.left_out = self.unread + len(found) - len(self.planned)
        is_whole = before is not None and not (self.dense or before.dense)
        self._sums: dict[By, Mapping[SeriesKey, RuleSum]] = {}
        if before is not None and is_whole:
            self._sums = before.sums_with(parts)

    def __reduce__(self) -> tuple[object, ...]:
        """Let another process add up the same schedules for itself."""
        planned = [each for part in self.parts.values() for each in part.planned]
        return RuleBook, ({0: BookPart((), planned, self.unread)},)

    @cached_property
    def accounts(self) -> frozenset[str]:
        """Return the accounts that its payments name."""
        payments = [each.schedule.payment for each in self.orders]
        names = ((each.from_account_id, each.to_account_id) for each in payments if each)
        return frozenset(chain.from_iterable(names))

    def sums(self, by: By, begin: datetime, until: datetime) -> Mapping[SeriesKey, RuleSum]:
        """Return the summed rules of each series; sums without changes are cached."""
        known = self._sums.get(by)
        if known is not None and all(each.covers(begin, until) for each in known.values()):
            return known
        grouped = _grouped(self.planned, by, begin)
        found = {series: RuleSum(begin).changed(own) for series, own in grouped.items()}
        if known is None or all(each.is_near(begin) for each in known.values()):
            self._sums[by] = found
            if self.sum_bytes > MAX_SUM_BYTES:
                self._sums = {by: found}
        return found

    @property
    def sum_bytes(self) -> int:
        """Return how much memory the sums take."""
        return sum(each.bytes for sums in self._sums.values() for each in sums.values())

    def sums_with(self, parts: Mapping[int, BookPart]) -> dict[By, Mapping[SeriesKey, RuleSum]]:
        """Return the sums with other parts, by adding and taking away no more than those."""
        before = [each for at, each in self.parts.items() if parts.get(at) is not each]
        after = [each for at, each in parts.items() if self.parts.get(at) is not each]
        if len(after) > MAX_CARRIED:
            return {}
        return {
            by: _carried(sums, by, before, after)
            for by, sums in self._sums.items()
            if 0 < len(sums) <= MAX_SERIES
        }


def _dense(planned: Sequence[PlannedSchedule]) -> frozenset[DayTimes]:
    """Return the times of a day that go beyond what is added up: the densest of them."""
    endless = (each.rule for each in planned if each.rule.plan.rule.max_runs is None)
    distinct = sorted(dict.fromkeys(each.times for each in endless), key=lambda each: each.size)
    sizes = accumulate(each.size for each in distinct)
    return frozenset(
        times for times, size in zip(distinct, sizes, strict=True) if size > MAX_DAY_TIMES
    )


def _carried(
    sums: Mapping[SeriesKey, RuleSum], by: By, before: list[BookPart], after: list[BookPart]
) -> dict[SeriesKey, RuleSum]:
    since = next(iter(sums.values())).since
    removed, added = (
        _grouped([each for part in parts for each in part.planned], by, since)
        for parts in (before, after)
    )
    return {
        series: sums.get(series, RuleSum(since)).changed(
            added.get(series, ()), removed.get(series, ())
        )
        for series in {**sums, **added}
    }


class CountedSchedules(msgspec.Struct, frozen=True):
    """Future occurrences of schedules, by minute."""

    counts: dict[SeriesKey, Counts]
    left_out: int


class RuleBooks:
    """Caches the rules of tenants; reads only the buckets that have changed."""

    def __init__(self) -> None:
        self._books: OrderedDict[int | None, RuleBook] = OrderedDict()
        self._reading: WeakValueDictionary[int | None, asyncio.Lock] = WeakValueDictionary()

    async def get(self, connection: Connection, tenant_id: int | None) -> RuleBook:
        """Return the current rules."""
        # Concurrent requests wait for the read and use its result.
        async with self._reading.setdefault(tenant_id, asyncio.Lock()):
            wanted = await store.fingerprints(connection, tenant_id)
            book = self._books.pop(tenant_id, None) or RuleBook({})
            parts = {at: each for at, each in book.parts.items() if at in wanted}
            at = time.monotonic()
            stale = [
                bucket
                for bucket, mark in wanted.items()
                if bucket not in parts or not parts[bucket].serves(mark, at)
            ]
            for first in range(0, len(stale), READ_BUCKETS):
                buckets = stale[first : first + READ_BUCKETS]
                marks = {bucket: wanted[bucket] for bucket in buckets}
                parts |= await _parts(connection, tenant_id, marks)
            if stale or parts.keys() != book.parts.keys():
                book = await in_thread(RuleBook, parts, book)
            self._books[tenant_id] = book
            self._forget()
            return book

    def _forget(self) -> None:
        """Evict the least recently used books, but never the last one."""
        booked = sum(len(book.planned) for book in self._books.values())
        summed = sum(book.sum_bytes for book in self._books.values())
        while len(self._books) > 1 and (
            booked > MAX_BOOKED or len(self._books) > MAX_BOOKS or summed > MAX_SUM_BYTES
        ):
            _, book = self._books.popitem(last=False)
            booked, summed = booked - len(book.planned), summed - book.sum_bytes


async def _parts(
    connection: Connection, tenant_id: int | None, wanted: Mapping[int, Fingerprint]
) -> dict[int, BookPart]:
    """Read the schedules of some buckets, and compile them in a thread."""
    found = await store.load(connection, tenant_id, wanted, MAX_BUCKET_RULES)
    names = {
        (row.schedule.tenant_id, name)
        for rows in found.values()
        for row in rows
        if (name := _calendar(row.rule_json)) is not None
    }
    versions = await calendar_store.current(connection, names) if names else {}
    calendars = {key: version.calendar for key, version in versions.items()}

    def compile_all() -> dict[int, BookPart]:
        return {at: _part(mark, found.get(at, []), calendars) for at, mark in wanted.items()}

    return await in_thread(compile_all)


class _NamesCalendar(msgspec.Struct):
    calendar: str | None = None


_names_calendar: Final = msgspec.json.Decoder(_NamesCalendar).decode


def _calendar(rule_json: str) -> str | None:
    try:
        return _names_calendar(rule_json).calendar
    except msgspec.MsgspecError:
        return None


def _part(
    fingerprint: Fingerprint,
    rows: Sequence[StoredRule],
    calendars: Mapping[tuple[int, str], Calendar],
) -> BookPart:
    planned = [each for row in rows if (each := _planned(row, calendars)) is not None]
    left_out = max(0, int(str(fingerprint[0])) - len(planned))
    return BookPart(fingerprint, planned, left_out, time.monotonic())


def _planned(
    row: StoredRule, calendars: Mapping[tuple[int, str], Calendar]
) -> PlannedSchedule | None:
    schedule = row.schedule
    name = _calendar(row.rule_json)
    calendar = None if name is None else calendars.get((schedule.tenant_id, name))
    try:
        rule, policies = _compiled(row.rule_json, row.policies_json, calendar)
        if row.payment_json is not None:
            payment = _payment(row.payment_json)
            schedule = msgspec.structs.replace(schedule, payment=payment)
    except (msgspec.MsgspecError, RefusedError):
        return None
    if rule.fraction:
        earlier = schedule.handled - rule.fraction
        schedule = msgspec.structs.replace(schedule, handled=earlier)
    shift = jitter(schedule.schedule_id, policies.jitter_seconds) + rule.fraction
    return PlannedSchedule(
        schedule, rule, shift, policies.jitter_seconds, policies.insufficient_funds
    )


@lru_cache(maxsize=16_384)
def _compiled(
    rule_json: str, policies_json: str, calendar: Calendar | None
) -> tuple[CompiledRule, Policies]:
    rule, policies = _rule(rule_json), _policies(policies_json)
    definition = Definition(rule=rule, template=Template(), policies=policies)
    return CompiledRule(plan_of(definition, calendar)), policies


def count_schedules(book: RuleBook, by: By, begin: datetime, until: datetime) -> CountedSchedules:
    """Count what schedules have to come by minute, for each series; best off the event loop."""
    counts, left_out, budget = {}, 0, WalkBudget()
    for series, rules in book.sums(by, begin, until).items():
        grid = MinuteGrid(begin, until)
        spend(grid.size // CELLS_A_STEP)
        left_out += rules.count(grid, budget)
        counts[series] = grid.counts()
    return CountedSchedules(counts, left_out)


def supposed(planned: list[PlannedSchedule]) -> RuleBook:
    """Return a book of schedules under the changes."""
    return RuleBook({0: BookPart((), planned, 0)})


def _grouped(
    planned: Sequence[PlannedSchedule], by: By, since: datetime
) -> dict[SeriesKey, list[CountedRule]]:
    """Sort schedules by series; the smallest are one, so that there are not too many."""
    named = [(each.schedule.payment is not None, _name(each.schedule, by)) for each in planned]
    largest = {series for series, _ in Counter(named).most_common(MAX_SERIES)}
    grouped: dict[SeriesKey, list[CountedRule]] = defaultdict(list)
    for series, each in zip(named, planned, strict=True):
        kept = series if series in largest else (series[0], OTHERS)
        grouped[kept].append(_counted(each, since))
    return grouped


def _name(rule: ScheduleRule, by: By) -> str:
    """Return the name of the series to which the occurrences of a schedule belong."""
    match by:
        case "lane":
            return rule.lane or ("default" if rule.payment is None else "")
        case "destination":
            return rule.destination or ""
        case "tenant":
            return str(rule.tenant_id)
        case "total":
            return ""


def _counted(each: PlannedSchedule, begin: datetime) -> CountedRule:
    schedule, runs = each.schedule, each.rule.plan.rule.max_runs
    # Schedules of one rule count as one where it does not matter how far each has come.
    matters = runs is not None or schedule.handled + each.shift >= begin
    handled = schedule.handled if matters else EPOCH
    left = None if runs is None else max(0, runs - schedule.runs)
    return CountedRule(each.rule, each.shift, handled, left)
