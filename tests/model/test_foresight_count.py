"""Occurrences counted by arithmetic, against the same rules followed step by step."""

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from itertools import takewhile

from hypothesis import given, settings
from hypothesis import strategies as st

from postdate.model.foresight.minutes import MinuteGrid, coarsen
from postdate.model.foresight.rule_count import CountedRule, RuleCount
from postdate.model.recurrence.calendar import Calendar, Roll
from postdate.model.recurrence.plan import RecurrencePlan, occurrences
from postdate.model.schedule.rule import plan_of
from postdate.model.schedule.schedule import (
    Definition,
    Dst,
    Gap,
    Policies,
    Repeated,
    Rule,
    Template,
)

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
        plan_of(definition, calendar),
        timedelta(milliseconds=draw(st.integers(0, 7_200_000)) * draw(st.integers(0, 1))),
        draw(st.integers(1, 3)),
        handled=BEGIN - timedelta(minutes=draw(st.sampled_from((600, 10)))),
        max_runs=draw(st.none() | st.integers(0, 30)),
    )


def _brute(rule: CountedRule, until: datetime) -> Iterator[datetime]:
    runs = 0
    last = until - rule.shift
    coming = takewhile(lambda o: o.scheduled_for < last, occurrences(rule.plan, rule.handled))
    for each in coming:
        if each.skip is None and (rule.max_runs is None or runs < rule.max_runs):
            runs += 1
            yield each.scheduled_for + rule.shift


@settings(max_examples=40)
@given(st.lists(counted(), min_size=1, max_size=6), st.sampled_from((1, 30, 150)))
def test_counting_by_arithmetic_equals_stepping(found: list[CountedRule], days: int) -> None:
    until = BEGIN + timedelta(days=days)
    grid = MinuteGrid(BEGIN, until)
    count = RuleCount(grid, step_limit=10**6)
    count.add(found)
    expected: Counter[int] = Counter()
    for rule in found:
        for at in _brute(rule, until):
            if at >= BEGIN:
                expected[(at - BEGIN) // timedelta(minutes=1)] += rule.weight
    counts = grid.counts()
    assert count.left_out == 0
    assert {minute: many for minute, many in enumerate(counts) if many} == dict(expected)
    assert sum(coarsen(counts, 60)) == expected.total()


def test_what_takes_too_long_is_left_out_and_told() -> None:
    plan = RecurrencePlan(Rule(every_seconds=7), Dst())
    grid = MinuteGrid(BEGIN, BEGIN + timedelta(days=1))
    count = RuleCount(grid, step_limit=100)
    count.add([CountedRule(plan, weight=4), CountedRule(plan)])
    assert count.left_out == 5
    assert sum(grid.counts()) == 400
