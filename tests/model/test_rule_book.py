"""The rules of a tenant added up: by series, and no more of them than is affordable."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from postdate.foresight.spec.minutes import MinuteGrid
from postdate.foresight.spec.money import due_at
from postdate.foresight.spec.rule_count import CountedRule, RuleSum, WalkBudget
from postdate.foresight.store.rule import ScheduleRule
from postdate.foresight.view import rules as module
from postdate.foresight.view.rules import (
    COUNTED_SECONDS,
    WAYS,
    BookPart,
    PlannedSchedule,
    count_schedules,
    supposed,
)
from postdate.foresight.view.standing_order import listed
from postdate.recurrence import run_days
from postdate.recurrence.compiled import CompiledRule
from postdate.recurrence.rule import Rule
from postdate.recurrence.run_days import DayTimes
from postdate.schedule.spec.rule import plan_of
from postdate.schedule.spec.schedule import Definition, PaymentTemplate, Policies, Template

NOW = datetime(2026, 11, 17, 12, tzinfo=UTC)
DAY = timedelta(days=1)
PAYMENT = PaymentTemplate(from_account_id="ada", to_account_id="bob", amount=1)


def _compiled(rule: Rule) -> CompiledRule:
    return CompiledRule(
        plan_of(Definition(rule=rule, template=Template(), policies=Policies()), None)
    )


def _planned(number: int, rule: Rule, lane: str, to: str, *, pays: bool = False) -> PlannedSchedule:
    own = ScheduleRule(1, UUID(int=number), NOW, 0, lane, to, payment=PAYMENT if pays else None)
    return PlannedSchedule(own, _compiled(rule))


def _dense(number: int) -> Rule:
    """Return a rule of every second but one of each minute."""
    return Rule(cron=f"{','.join(str(s) for s in range(60) if s != number)} * * * * *")


def _noting(found: set[DayTimes], seconds: Callable[[DayTimes], Any]) -> Callable[[DayTimes], Any]:
    def noted(times: DayTimes) -> Any:
        found.add(times)
        return seconds(times)

    return noted


def test_each_series_counts_what_its_schedules_count_alone() -> None:
    planned = [
        _planned(
            number,
            Rule(cron=f"{number} */{1 + number % 5} * * *", timezone="Europe/Berlin"),
            f"lane-{number % 3}",
            f"to-{number % 4}",
            pays=number % 6 == 0,
        )
        for number in range(36)
    ]
    begin, until = NOW + DAY, NOW + 200 * DAY
    book = supposed(planned)
    for way in WAYS:
        counted = count_schedules(book, way, begin, until).counts
        series = {
            (each.schedule.payment is not None, module._name(each.schedule, way))
            for each in planned
        }
        assert counted.keys() == series
        for pays, name in series:
            own = [
                each
                for each in planned
                if (each.schedule.payment is not None, module._name(each.schedule, way))
                == (pays, name)
            ]
            [alone] = count_schedules(supposed(own), "tenant", begin, until).counts.values()
            assert counted[pays, name] == alone


def test_rules_too_dense_to_be_added_up_are_left_out_and_never_listed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    listed_times: set[DayTimes] = set()
    monkeypatch.setattr(DayTimes, "seconds", _noting(listed_times, DayTimes.seconds))
    monkeypatch.setattr(run_days, "_memory", run_days._SecondsMemory())
    run_days._listed.cache_clear()
    dense = [_planned(number, _dense(number), "a", "b") for number in range(20)]
    same = [_planned(100 + number, _dense(0), "a", "b") for number in range(20)]
    few = [_planned(200, Rule(cron="0 * * * *"), "a", "b")]
    book = supposed([*dense, *same, *few])
    counted = [each for each in dense if each in book.planned]
    assert len(counted) == module.MAX_DAY_TIMES // (59 * 1440)
    assert few[0] in book.planned
    sizes = {each.rule.times: each.rule.times.size for each in book.planned}
    assert sum(sizes.values()) <= module.MAX_DAY_TIMES
    assert book.left_out == 41 - len(book.planned)
    count_schedules(book, "total", NOW + DAY, NOW + 2 * DAY)
    assert listed_times >= {each.rule.times for each in counted}
    assert not listed_times & book.dense


def test_payments_of_rules_too_dense_to_be_added_up_are_followed_as_far_as_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    planned = [
        _planned(1, _dense(7), "", "", pays=True),
        _planned(2, Rule(cron="30 * * * *"), "", "", pays=True),
    ]
    whole = listed(supposed(planned), NOW, NOW + DAY / 12, limit=10_000)
    monkeypatch.setattr(module, "MAX_DAY_TIMES", 100)
    book = supposed(planned)
    assert book.left_out == 1
    followed = listed(book, NOW, NOW + 30 * DAY, limit=10_000)
    assert whole.known_until < followed.known_until < NOW + DAY / 8
    within = [due_at(each) for each in followed.within(NOW, whole.known_until)]
    assert within == [due_at(each) for each in whole.within(NOW, whole.known_until)]
    assert len(within) == 59 * 120 + 1


def test_sums_that_take_too_much_memory_are_kept_for_the_last_question_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    book = supposed([_planned(n, Rule(cron=f"{n} * * * *"), f"l{n}", "b") for n in range(9)])
    book.sums("lane", NOW, NOW + DAY)
    book.sums("total", NOW, NOW + DAY)
    whole = book.sum_bytes
    monkeypatch.setattr(module, "MAX_SUM_BYTES", whole - 1)
    other = supposed(book.planned)
    other.sums("total", NOW, NOW + DAY)
    kept = other.sums("lane", NOW, NOW + DAY)
    assert other.sum_bytes == sum(each.bytes for each in kept.values()) < whole
    assert other.sums("lane", NOW, NOW + DAY) is kept


def test_all_series_of_a_question_share_one_budget_of_steps() -> None:
    rule = _compiled(Rule(rrule="FREQ=MINUTELY;INTERVAL=7", start_at=NOW))
    sums = RuleSum(NOW).changed([CountedRule(rule)])
    budget = WalkBudget(300)
    grids = [MinuteGrid(NOW, NOW + DAY) for _ in range(2)]
    assert [sums.count(grid, budget) for grid in grids] == [0, 1]
    assert [sum(grid.counts()) for grid in grids] == [206, 0]


def test_rules_whose_runs_are_counted_are_read_again_after_an_hour_others_are_not() -> None:
    def serves(rule: Rule, seconds: float) -> bool:
        return BookPart((1,), [_planned(0, rule, "", "")], 0, 10.0).serves((1,), 10.0 + seconds)

    counted, endless = Rule(every_seconds=1, max_runs=10**9), Rule(every_seconds=1)
    assert serves(counted, COUNTED_SECONDS - 1)
    assert not serves(counted, COUNTED_SECONDS)
    assert serves(endless, 1000 * COUNTED_SECONDS)
    assert not BookPart((1,), [], 0, 10.0).serves((2,), 10.0)
