"""What schedules will pay, listed once and asked for often."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from postdate.foresight.spec.money import due_at
from postdate.foresight.store.rule import ScheduleRule
from postdate.foresight.view.rules import PlannedSchedule, RuleBook, count_schedules, supposed
from postdate.foresight.view.standing_order import KEPT, OrderLists, listed
from postdate.recurrence import budget
from postdate.recurrence.compiled import CompiledRule
from postdate.recurrence.rule import Rule
from postdate.schedule.spec.rule import plan_of
from postdate.schedule.spec.schedule import Definition, PaymentTemplate, Policies, Template
from postdate.words.error import Code, refuse

NOW = datetime(2026, 11, 17, 12, tzinfo=UTC)
DAY = timedelta(days=1)
PAYMENT = PaymentTemplate(from_account_id="ada", to_account_id="bob", amount=1)


def _definition(rule: Rule) -> Definition:
    return Definition(rule=rule, template=Template(payment=PAYMENT), policies=Policies())


def _book(*rules: Rule) -> RuleBook:
    return supposed(
        [
            PlannedSchedule(
                ScheduleRule(1, UUID(int=number), NOW, 0, payment=PAYMENT),
                CompiledRule(plan_of(_definition(rule))),
            )
            for number, rule in enumerate(rules)
        ]
    )


def _instants(lists: OrderLists, book: RuleBook, now: datetime, until: datetime) -> list[datetime]:
    return [due_at(each) for each in lists.get(book, now, until).within(now, until)]


def test_one_list_answers_the_questions_of_an_hour_as_new_ones_do() -> None:
    book = _book(Rule(cron="*/7 * * * *"), Rule(every_seconds=5000), Rule(cron="30 8 * * 1-5"))
    lists = OrderLists()
    first = lists.get(book, NOW, NOW + 30 * DAY)
    for minutes in (0, 7, 21, 59):
        for window in (DAY / 24, DAY, 30 * DAY):
            now = NOW + timedelta(minutes=minutes)
            assert lists.get(book, now, now + window) is first
            fresh = listed(book, now, now + window).within(now, now + window)
            assert first.within(now, now + window) == fresh
            assert fresh
    later = NOW + KEPT
    assert lists.get(book, later, later + DAY) is not first
    assert lists.get(book, NOW, NOW + 60 * DAY).until > first.until


def test_a_list_that_had_to_be_cut_says_where_and_is_kept() -> None:
    book = _book(Rule(every_seconds=60))
    cut = listed(book, NOW, NOW + 64 * DAY, limit=1000)
    assert cut.known_until == NOW + DAY / 2
    assert cut.within(NOW, NOW + 64 * DAY) == cut.payments
    assert cut.serves(NOW, NOW + 64 * DAY)
    assert cut.serves(NOW, NOW + DAY / 2)
    assert not cut.serves(NOW, NOW + DAY)


def test_runs_that_happened_since_the_rule_was_read_are_not_to_come() -> None:
    book, lists = _book(Rule(every_seconds=3600, max_runs=4)), OrderLists()
    hours = [NOW + timedelta(hours=hour) for hour in (1, 2, 3, 4)]
    assert _instants(lists, book, NOW, NOW + DAY) == hours
    later = NOW + timedelta(hours=2)
    assert _instants(lists, book, later, later + DAY) == hours[2:]


def test_a_rule_that_takes_too_long_is_left_out_and_refuses_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(budget, "MAX_STEPS", 1000)
    # It began on a Sunday, and so never runs.
    text, sunday = "FREQ=DAILY;INTERVAL=7;BYDAY=MO", datetime(2026, 1, 4, tzinfo=UTC)
    never = Rule(rrule=text, start_at=sunday, max_runs=5)
    book = _book(never, Rule(cron="0 9 * * *"))
    found = listed(book, NOW, NOW + 3 * DAY)
    assert found.left_out == 1
    assert [each[1].schedule_id for each in found.payments] == [UUID(int=1)] * 3
    assert count_schedules(book, "total", NOW, NOW + 3 * DAY).left_out == 1
    assert listed(_book(Rule(cron="0 9 * * *")), NOW, NOW + 3 * DAY).left_out == 0


def test_a_rule_that_is_refused_half_way_is_left_out_completely(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused(_: object, after: datetime, __: datetime) -> Iterator[datetime]:
        yield after + DAY
        raise refuse(Code.INVALID_FIELD, "It takes too many steps.", "rrule")

    monkeypatch.setattr(CompiledRule, "occurrences", refused)
    found = listed(_book(Rule(cron="0 * * * *", max_runs=9)), NOW, NOW + 3 * DAY)
    assert (found.payments, found.left_out) == ([], 1)
