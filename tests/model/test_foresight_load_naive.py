"""Load ahead against naive counts: rules followed on the wall clock, a queue second by second."""

import random
from array import array
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from functools import cache
from itertools import pairwise
from typing import Any
from uuid import UUID

import msgspec
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from postdate.foresight.spec.lateness import late_forecast
from postdate.foresight.store.rule import ScheduleRule
from postdate.foresight.view.rules import PlannedSchedule, SeriesKey, count_schedules, supposed
from postdate.recurrence.calendar import Calendar, Roll
from postdate.recurrence.compiled import CompiledRule
from postdate.recurrence.plan import RecurrencePlan
from postdate.recurrence.rule import Dst, Gap, Repeated, Rule
from postdate.schedule.spec.schedule import PaymentTemplate, jitter
from support.schedule_case import Drawn, draw_rule
from support.schedule_oracle import DAY, MINUTE, Closed, Walk, changes, expected, load, nominal

ZONES = ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Santiago")
SECOND = timedelta(seconds=1)
HOUR = timedelta(hours=1)
LENGTHS = (HOUR, DAY, 40 * DAY)
PAYMENT = PaymentTemplate(from_account_id="ada", to_account_id="bob", amount=1)
BEGIN = datetime(2026, 11, 17, 7, 58, tzinfo=UTC)


@cache
def _walk(zone: str, change: int) -> Walk:
    info = load(zone)
    at = changes(info, 2026, 2027)[change]
    return Walk(info, at - 11 * DAY, at + 48 * DAY)


class Naive:
    """A schedule with its instants, found one by one without the product."""

    def __init__(self, draw: random.Random, zone: str, walk: Walk) -> None:
        self._draw, self._walk, self._zone = draw, walk, zone
        self._near = walk.begin + 11 * DAY
        self._dst = Dst(gap=draw.choice(list(Gap)), repeated=draw.choice(list(Repeated)))
        drawn = draw_rule(draw, zone, (self._near + draw.randrange(20) * DAY).date())
        drawn, fired = self._interval(drawn) if draw.random() < 0.3 else self._on_clock(drawn)
        runs, jitter_seconds = draw.choice((0, 2)), draw.choice((0, 0, 90, 7200))
        rule = drawn.rule
        row = ScheduleRule(
            tenant_id=1,
            schedule_id=UUID(int=draw.getrandbits(128)),
            handled=self._near - 2 * DAY - draw.randrange(2880) * MINUTE,
            runs=runs,
            lane=draw.choice(("day", "night")),
            destination=None,
            payment=draw.choice((None, None, PAYMENT)),
        )
        calendar = Calendar("a", drawn.closed.holidays) if drawn.closed else None
        compiled = CompiledRule(RecurrencePlan(rule, self._dst, calendar))
        self.planned = PlannedSchedule(row, compiled).with_jitter(jitter_seconds)
        self.series: SeriesKey = row.payment is not None, row.lane or ""
        begin, end = rule.start_at or walk.begin, rule.end_at or walk.end
        left = [at for at in sorted(fired) if at > row.handled and begin <= at <= end]
        if rule.max_runs is not None:
            left = left[: max(0, rule.max_runs - runs)]
        self.due = [at + jitter(row.schedule_id, jitter_seconds) for at in left]

    def _limits(self) -> dict[str, Any]:
        """Draw when a rule begins and ends, near the change of the clock, and after how many."""
        begin = self._near + self._draw.randrange(-4320, 4320) * MINUTE
        return {
            "start_at": self._draw.choice((None, None, begin)),
            "end_at": self._draw.choice(
                (None, None, begin + self._draw.randrange(90) * 12 * MINUTE)
            ),
            "max_runs": self._draw.choice((None, None, self._draw.randrange(1, 60))),
        }

    def _on_clock(self, drawn: Drawn) -> tuple[Drawn, set[datetime]]:
        limits = self._limits()
        if drawn.rule.rrule is not None:
            del limits["start_at"]
        first, last = self._walk.begin + DAY, self._walk.end - DAY
        wanted = nominal(first.replace(tzinfo=None), last.replace(tzinfo=None), drawn.asks)
        gap, repeated = str(self._dst.gap), str(self._dst.repeated)
        fired, _ = expected(self._walk, wanted, gap, repeated, drawn.closed)
        return drawn._replace(rule=msgspec.structs.replace(drawn.rule, **limits)), fired

    def _interval(self, drawn: Drawn) -> tuple[Drawn, set[datetime]]:
        begin = self._near - timedelta(seconds=self._draw.randrange(7 * 86_400))
        every = self._draw.choice((300, 420, 3600, 7000, 86_400, 3 * 86_400))
        closed = drawn.closed and Closed(drawn.closed.holidays, "none")
        limits = {**self._limits(), "start_at": begin, "timezone": self._zone}
        rule = Rule(every_seconds=every, calendar="a" if closed else None, roll=Roll.NONE, **limits)
        fired, at = set(), begin
        while at < self._walk.end:
            day = at.astimezone(self._walk.zone).date()
            if closed is None or not closed.is_closed(day):
                fired.add(at)
            at += timedelta(seconds=every)
        return Drawn(rule, drawn.asks, closed), fired


def _naive_counts(
    schedules: list[Naive], begin: datetime, until: datetime
) -> dict[SeriesKey, dict[int, int]]:
    counts: dict[SeriesKey, Counter[int]] = {each.series: Counter() for each in schedules}
    for each in schedules:
        own = (at for at in each.due if begin <= at < until)
        counts[each.series].update((at - begin) // MINUTE for at in own)
    return {series: dict(own) for series, own in counts.items()}


def _compare(seed: int, zone: str, change: int) -> None:
    draw, walk = random.Random(seed), _walk(zone, change)
    schedules = [Naive(draw, zone, walk) for _ in range(3)]
    book = supposed([each.planned for each in schedules])
    for _ in range(4):
        begin = walk.begin + 9 * DAY + draw.randrange(2880) * MINUTE
        until = begin + draw.choice(LENGTHS)
        found = count_schedules(book, "lane", begin, until)
        told = {
            series: {at: many for at, many in enumerate(counts) if many}
            for series, counts in found.counts.items()
        }
        assert found.left_out == 0
        assert told == _naive_counts(schedules, begin, until)


# A seed has nothing to shrink.
@settings(max_examples=3, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(st.integers(0, 2**32), st.sampled_from(ZONES), st.integers(0, 1))
def test_rules_count_as_on_a_wall_clock_whatever_was_asked_before(
    seed: int, zone: str, change: int
) -> None:
    _compare(seed, zone, change)


@pytest.mark.soak
@pytest.mark.parametrize("zone", ZONES)
def test_many_rules_count_as_on_a_wall_clock(zone: str) -> None:
    for seed in range(25):
        _compare(seed, zone, seed % 2)


def test_what_a_later_window_has_counted_does_not_serve_an_earlier_one() -> None:
    noon = BEGIN.replace(hour=12, minute=0) + DAY
    rule = Rule(every_seconds=5400, start_at=noon)
    row = ScheduleRule(1, UUID(int=1), BEGIN, 0, "day")
    book = supposed([PlannedSchedule(row, CompiledRule(RecurrencePlan(rule, Dst())))])
    until = noon + DAY

    def total(begin: datetime) -> int:
        [counts] = count_schedules(book, "total", begin, until).counts.values()
        return sum(counts)

    assert total(noon + 6 * HOUR) == 12
    assert total(noon - 6 * HOUR) == 16
    assert total(noon + 6 * HOUR) == 12


@pytest.mark.parametrize("every", [3600, 7000])
def test_what_is_due_as_the_window_begins_is_counted_unless_it_is_stored(every: int) -> None:
    plan = RecurrencePlan(Rule(every_seconds=every, start_at=BEGIN - DAY - every * SECOND), Dst())
    begin = BEGIN - DAY + 60 * every * SECOND

    def first(handled: datetime) -> int:
        row = ScheduleRule(1, UUID(int=1), handled, 0, "day")
        book = supposed([PlannedSchedule(row, CompiledRule(plan))])
        [counts] = count_schedules(book, "total", begin, begin + DAY).counts.values()
        return counts[0]

    assert first(begin - SECOND) == 1
    assert first(begin) == 0


def _levels(counts: list[int], per_second: Fraction, backlog: int) -> Iterator[Fraction]:
    """Let work arrive evenly within its minute; tell how much waits after each second."""
    waiting = Fraction(backlog)
    yield waiting
    for count in counts:
        for _ in range(60):
            waiting = max(Fraction(0), waiting + Fraction(count, 60) - per_second)
            yield waiting


def _naive_episodes(levels: list[Fraction], per_second: Fraction) -> list[tuple[Any, ...]]:
    """Cut the seconds where nothing waits; an episode lasts whole minutes."""
    empty = [-1, *(at for at, level in enumerate(levels) if not level), len(levels)]
    found = []
    for before, after in pairwise(empty):
        if after - before == 1:
            continue
        stretch = range(before + 1, after)
        worst = max(stretch, key=lambda at: levels[at])
        since = BEGIN + max(0, before) // 60 * MINUTE
        until = None if after == len(levels) else BEGIN + -(-after // 60) * MINUTE
        late = int(levels[worst] / per_second)
        at = BEGIN + timedelta(seconds=worst)
        found.append((since, until, at, late, int(levels[worst])))
    return found


@given(
    st.lists(st.sampled_from((0, 0, 7, 60, 66, 123, 246, 400)), min_size=1, max_size=20),
    st.sampled_from(("0.02", "0.29", "1", "1.1", "2.05", "4.1")),
    st.sampled_from((0, 0, 41, 300)),
)
def test_lateness_equals_a_queue_that_is_followed_second_by_second(
    counts: list[int], rate: str, backlog: int
) -> None:
    per_second = Fraction(rate)
    found = late_forecast(array("I", counts), BEGIN, float(rate), backlog)
    naive = _naive_episodes(list(_levels(counts, per_second, backlog)), per_second)
    told = [
        (each.from_at, each.until_at, each.worst_at, each.late_seconds, each.waiting)
        for each in found.episodes
    ]
    assert told == naive
    assert found.first_late_at == (naive[0][0] if naive else None)
    most = max((each[4] for each in naive), default=None)
    assert (found.worst and found.worst.waiting) == most
    for each in found.episodes:
        assert each.worst_hour <= each.worst_at <= each.worst_hour + HOUR


def test_a_capacity_that_just_suffices_is_never_late() -> None:
    assert late_forecast(array("I", [123, 123, 0, 123]), BEGIN, 2.05).episodes == []
    [episode] = late_forecast(array("I", [87, 0, 0, 0, 0, 0, 0]), BEGIN, 0.29).episodes
    assert episode.until_at == BEGIN + 5 * MINUTE
