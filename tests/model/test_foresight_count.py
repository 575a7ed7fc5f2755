"""Occurrences counted by arithmetic, against the same rules followed step by step."""

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from itertools import takewhile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from postdate.foresight.spec.minutes import MinuteGrid, coarsen
from postdate.foresight.spec.rule_count import (
    MAX_GROUPS,
    CountedRule,
    RuleSum,
    WalkBudget,
    run_seconds,
)
from postdate.recurrence.calendar import Calendar, Roll
from postdate.recurrence.compiled import CompiledRule
from postdate.recurrence.plan import RecurrencePlan, occurrences
from postdate.recurrence.rule import EPOCH, Dst, Gap, Repeated, Rule
from postdate.recurrence.run_days import PACKED_BYTES
from postdate.schedule.spec.rule import plan_of
from postdate.schedule.spec.schedule import Definition, Policies, Template

ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata")
CRONS = (
    "*/7 * * * *",
    "0 0 * * *",
    "30 2 * * *",
    "15 1,2,3 * * 1-5",
    "0 9 1 * *",
    "59 23 L * *",
    "5 0 29 2 *",
    "0 */6 * * 0",
    "30 0 2,30 * 6#2",
)
RRULES = (
    "FREQ=DAILY;INTERVAL=3",
    "FREQ=WEEKLY;BYDAY=MO,TH",
    "FREQ=MONTHLY;BYDAY=-1FR",
    "FREQ=HOURLY;INTERVAL=4",
    "FREQ=HOURLY;INTERVAL=7",
    "FREQ=MONTHLY;BYDAY=MO,TU;BYSETPOS=-1",
    "FREQ=DAILY;COUNT=20",
    "FREQ=WEEKLY;UNTIL=20270301T000000Z",
)
CALENDAR = Calendar("bank", frozenset({date(2026, 12, 25), date(2027, 3, 26), date(2027, 3, 29)}))
_SECOND = timedelta(seconds=1)
BEGIN = datetime(2026, 11, 17, 7, 3, tzinfo=UTC)

rules = st.one_of(
    st.builds(Rule, cron=st.sampled_from(CRONS), timezone=st.sampled_from(ZONES)),
    st.builds(
        Rule,
        rrule=st.sampled_from(RRULES),
        timezone=st.sampled_from(ZONES),
        start_at=st.integers(-4_000_000, 3_000_000).map(lambda s: BEGIN + timedelta(seconds=s)),
    ),
    st.builds(
        Rule,
        every_seconds=st.sampled_from((600, 3600, 5400, 7000, 86_400, 3 * 86_400, 604_800)),
        start_at=st.none() | st.just(datetime(2026, 11, 1, 5, 17, 23, tzinfo=UTC)),
    ),
)


@st.composite
def counted(draw: st.DrawFn) -> CountedRule:
    rule = draw(rules)
    dst = Dst(gap=draw(st.sampled_from(Gap)), repeated=draw(st.sampled_from(Repeated)))
    calendar = draw(st.sampled_from((None, None, CALENDAR)))
    often = rule.every_seconds is not None or "*/" in (rule.cron or "") or "HOUR" in str(rule.rrule)
    roll = Roll.NONE if calendar is None or often else draw(st.sampled_from(Roll))
    end_at = draw(st.none() | st.just(datetime(2027, 1, 4, 9, tzinfo=UTC)))
    excluded = draw(st.sampled_from(((), (date(2026, 11, 20), date(2027, 3, 28)))))
    rule = Rule(
        **{name: getattr(rule, name) for name in ("cron", "rrule", "every_seconds", "timezone")},
        start_at=rule.start_at,
        end_at=end_at,
        exclude_dates=excluded,
        roll=roll,
        calendar=None if calendar is None else calendar.name,
    )
    definition = Definition(rule=rule, template=Template(), policies=Policies(dst=dst))
    return CountedRule(
        CompiledRule(plan_of(definition, calendar)),
        timedelta(milliseconds=draw(st.integers(0, 7_200_000)) * draw(st.integers(0, 1))),
        handled=BEGIN - timedelta(minutes=draw(st.sampled_from((600, 10)))),
        max_runs=draw(st.none() | st.integers(0, 30)),
    )


def _brute(rule: CountedRule, until: datetime) -> Iterator[datetime]:
    runs = 0
    last = until - rule.shift
    coming = takewhile(lambda o: o.scheduled_for < last, occurrences(rule.rule.plan, rule.handled))
    for each in coming:
        if each.skip is None and (rule.max_runs is None or runs < rule.max_runs):
            runs += 1
            yield each.scheduled_for + rule.shift


def _following(plan: RecurrencePlan, after: datetime, until: datetime) -> Iterator[datetime]:
    coming = takewhile(lambda each: each.scheduled_for < until, occurrences(plan, after))
    return (each.scheduled_for for each in coming)


def _naive(rules: list[CountedRule], begin: datetime, until: datetime) -> dict[int, int]:
    found: Counter[int] = Counter()
    for rule in rules:
        due = (at for at in _brute(rule, until) if at >= begin)
        found.update((at - begin) // timedelta(minutes=1) for at in due)
    return dict(found)


def _told(rules: RuleSum, begin: datetime, until: datetime) -> dict[int, int]:
    grid = MinuteGrid(begin, until)
    assert rules.covers(begin, until)
    assert rules.count(grid, WalkBudget(10**6)) == 0
    counts = grid.counts()
    assert sum(coarsen(counts, 60)) == sum(counts)
    return {minute: many for minute, many in enumerate(counts) if many}


@settings(max_examples=40)
@given(
    st.lists(counted(), min_size=1, max_size=6),
    st.lists(counted(), max_size=2),
    st.sampled_from((1, 30, 150)),
    st.sampled_from((0, 1441, 180_000)),
)
def test_counting_by_arithmetic_equals_stepping(
    found: list[CountedRule], gone: list[CountedRule], days: int, later: int
) -> None:
    rules = RuleSum(BEGIN).changed([*found[1:], *gone])
    changed = rules.changed([found[0]], removed=gone)
    begin = BEGIN + timedelta(minutes=later)
    until = begin + timedelta(days=days)
    assert _told(changed, begin, until) == _naive(found, begin, until)
    assert _told(rules, begin, until) == _naive([*found[1:], *gone], begin, until)


@pytest.mark.parametrize("timezone", ZONES)
def test_a_day_on_which_clocks_change_is_counted_once(timezone: str) -> None:
    rule = Rule(cron="15 1,2,3 * * *", timezone=timezone)
    definition = Definition(rule=rule, template=Template(), policies=Policies())
    found = [CountedRule(CompiledRule(plan_of(definition, None)), handled=BEGIN)]
    until = BEGIN + timedelta(days=200)
    assert _told(RuleSum(BEGIN).changed(found), BEGIN, until) == _naive(found, BEGIN, until)


@settings(max_examples=40)
@given(counted(), st.sampled_from((1, 30, 150)), st.sampled_from((0, 1441, 180_000)))
def test_the_times_of_a_rule_equal_stepping(found: CountedRule, days: int, later: int) -> None:
    after = BEGIN + timedelta(minutes=later)
    until = after + timedelta(days=days)
    coming = takewhile(lambda o: o.scheduled_for < until, occurrences(found.rule.plan, after))
    expected = [each.scheduled_for for each in coming if each.skip is None]
    assert list(found.rule.occurrences(after, until)) == expected
    if found.rule.is_regular(until):
        seconds = sorted(run_seconds(found.rule, after, until))
        assert [EPOCH + timedelta(seconds=each) for each in seconds] == expected


def test_what_takes_too_long_is_left_out_and_told() -> None:
    rule = CompiledRule(
        RecurrencePlan(Rule(rrule="FREQ=MINUTELY;INTERVAL=7", start_at=BEGIN), Dst())
    )
    rules = RuleSum(BEGIN).changed([CountedRule(rule)] * 4 + [CountedRule(rule, _SECOND)])
    grid = MinuteGrid(BEGIN, BEGIN + timedelta(days=1))
    assert rules.count(grid, WalkBudget(100)) == 5
    assert sum(grid.counts()) == 0


def test_a_sum_says_which_windows_it_covers() -> None:
    rules, year = RuleSum(BEGIN), timedelta(days=366)
    later = BEGIN + timedelta(days=100)
    assert rules.covers(BEGIN, BEGIN + year)
    assert rules.covers(later, later + year)
    assert not rules.covers(BEGIN - timedelta(minutes=1), BEGIN + year)
    assert not rules.covers(BEGIN + year, BEGIN + 2 * year)


def test_a_sum_does_not_grow_with_the_number_of_day_sets() -> None:
    def counted(number: int) -> CountedRule:
        days = ",".join(str(day + 1) for day in range(11) if number >> day & 1)
        rule = Rule(cron=f"{number % 60} {number % 24} {days} * *", timezone="Europe/Berlin")
        return CountedRule(CompiledRule(RecurrencePlan(rule, Dst())))

    rules = [counted(number) for number in range(1, 1 << 11)]
    until = BEGIN + timedelta(days=30)
    rest = RuleSum(BEGIN).changed(rules)
    assert len(rest.groups) <= MAX_GROUPS
    assert rest.bytes <= MAX_GROUPS * PACKED_BYTES
    assert _told(rest, BEGIN, until) == _naive(rules, BEGIN, until)
    kept = rest.changed([], removed=rules[:2000])
    assert _told(kept, BEGIN, until) == _naive(rules[2000:], BEGIN, until)


@given(
    st.sampled_from((30, 600, 7000, 86_400)),
    st.integers(-9_000_000, 2_000_000),
    st.integers(1, 999_999),
    st.none() | st.integers(0, 10**12).map(lambda us: BEGIN + timedelta(microseconds=us)),
    st.integers(0, 7200),
    st.none() | st.integers(0, 900),
)
@settings(max_examples=60)
def test_an_interval_that_begins_within_a_second_is_counted_by_arithmetic(
    every: int, start: int, part: int, end_at: datetime | None, jitter: int, handled: int | None
) -> None:
    start_at = BEGIN + timedelta(seconds=start, microseconds=part)
    rule = Rule(every_seconds=every, start_at=start_at, end_at=end_at)
    plan = plan_of(Definition(rule=rule, template=Template(), policies=Policies()), None)
    done = start_at + handled * timedelta(seconds=every) if handled is not None else EPOCH
    compiled, until = CompiledRule(plan), BEGIN + timedelta(days=12)
    shift = timedelta(seconds=jitter)
    counted = CountedRule(compiled, shift + compiled.fraction, done - compiled.fraction)
    expected: Counter[int] = Counter()
    for at in _following(plan, done, until - shift):
        if at + shift >= BEGIN:
            expected[(at + shift - BEGIN) // timedelta(minutes=1)] += 1
    rules = RuleSum(BEGIN).changed([counted])
    grid = MinuteGrid(BEGIN, until)
    assert rules.count(grid, WalkBudget(0)) == 0
    told = {minute: many for minute, many in enumerate(grid.counts()) if many}
    assert told == expected
