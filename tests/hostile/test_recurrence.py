"""Recurrence bombs: legal texts made to cost time or memory. Each is refused or answered cheaply.

Work is counted in steps, so that the verdict is the same on a slow machine; time is compared with
that of an innocent rule on the same machine, and memory is what Python itself allocated.
"""

import time
import tracemalloc
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from functools import partial
from itertools import islice
from typing import Any

import pytest

from postdate.recurrence import budget, cron, rrule
from postdate.recurrence.budget import StepBudget
from postdate.recurrence.calendar import Calendar, Roll
from postdate.recurrence.plan import RecurrencePlan, first_that_runs, occurrences
from postdate.recurrence.rule import Dst, Gap, Repeated, Rule
from postdate.schedule.spec.preview import preview_unsaved
from postdate.schedule.spec.rule import check, completed
from postdate.schedule.spec.schedule import Definition, Policies, Template
from postdate.words.error import RefusedError

START = datetime(2026, 3, 28, 22, 30, tzinfo=UTC)
HOURS = ",".join(map(str, range(24)))
SIXTY = ",".join(map(str, range(60)))
SEVENS = ",".join(map(str, range(0, 60, 7)))
ALL_TIMES = f"BYHOUR={HOURS};BYMINUTE={SIXTY};BYSECOND={SIXTY}"
EVERY_DAY = "BYDAY=MO,TU,WE,TH,FR,SA,SU"

RULES = [
    f"FREQ=DAILY;{ALL_TIMES}",
    f"FREQ=WEEKLY;{EVERY_DAY};{ALL_TIMES}",
    f"FREQ=MONTHLY;{EVERY_DAY};{ALL_TIMES}",
    f"FREQ=YEARLY;{EVERY_DAY};{ALL_TIMES}",
    f"FREQ=YEARLY;{EVERY_DAY};{ALL_TIMES};BYSETPOS=1,-1,366,-366",
    f"FREQ=YEARLY;{EVERY_DAY};{ALL_TIMES};COUNT=10000",
    f"FREQ=YEARLY;INTERVAL=100000;{EVERY_DAY};{ALL_TIMES}",
    f"FREQ=HOURLY;BYMINUTE={SIXTY};BYSECOND={SIXTY}",
    f"FREQ=HOURLY;INTERVAL=25;BYHOUR=9;BYMINUTE={SIXTY};BYSECOND={SIXTY}",
    f"FREQ=HOURLY;BYMINUTE={SIXTY};BYSECOND={SIXTY};BYSETPOS=366",
    f"FREQ=SECONDLY;{ALL_TIMES}",
    f"FREQ=SECONDLY;INTERVAL=7;BYDAY=MO;BYHOUR=0,7,14,21;BYMINUTE={SEVENS};BYSECOND={SEVENS}",
    f"FREQ=SECONDLY;INTERVAL=7;BYHOUR=0,7,14,21;BYMINUTE={SEVENS};BYSECOND={SEVENS};COUNT=10000",
    "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29;COUNT=10000",
    "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=29;COUNT=10000",
    "FREQ=SECONDLY;BYMONTH=2;BYMONTHDAY=29;COUNT=10000",
    "FREQ=DAILY;INTERVAL=3;COUNT=10000",
    "FREQ=DAILY;INTERVAL=3;BYDAY=MO;COUNT=10000",
    "FREQ=WEEKLY;BYDAY=MO,TU;BYSETPOS=1;COUNT=10000",
    "FREQ=SECONDLY;INTERVAL=61;BYSECOND=0;COUNT=10000",
    "FREQ=SECONDLY;INTERVAL=9973;BYHOUR=9,10,11;COUNT=10000",
    "FREQ=SECONDLY;INTERVAL=577;BYHOUR=9;BYSECOND=1;COUNT=10000",
    "FREQ=MONTHLY;BYDAY=MO;BYSETPOS=7",
    "FREQ=WEEKLY;BYDAY=MO;BYSETPOS=2",
    "FREQ=YEARLY;BYDAY=MO;BYSETPOS=366",
    "FREQ=DAILY;BYHOUR=1;BYSETPOS=366",
    "FREQ=DAILY;INTERVAL=7;BYDAY=MO",
    "FREQ=HOURLY;INTERVAL=168;BYDAY=MO",
    "FREQ=SECONDLY;INTERVAL=86399;BYHOUR=9;BYMINUTE=0;BYSECOND=1",
    "FREQ=SECONDLY;INTERVAL=99991;BYDAY=MO;BYHOUR=3;BYMINUTE=1;BYSECOND=1",
    "FREQ=SECONDLY;INTERVAL=60;BYSECOND=7",
    "FREQ=SECONDLY;BYMONTH=2;BYMONTHDAY=30",
    "FREQ=YEARLY;INTERVAL=100000",
    "FREQ=MONTHLY;INTERVAL=100000;BYMONTHDAY=31",
    "FREQ=DAILY;UNTIL=99991231T235959Z",
    "FREQ=DAILY;UNTIL=00010101T000000Z",
]
CRONS = [
    "* * * * * *",
    "0 0 29 2 *",
    "0 0 */31 2 */7",
    "59 59 23 31 12 *",
    "0 0 L 2 MON#5",
    "0-59,0-59,0-59,0-59,0-59,0-59,0-59 0-59,0-59,0-59 0-23,0-23 * * * ",
]
ZONES = ("UTC", "Europe/Berlin", "Australia/Lord_Howe")
POLICIES = (
    Dst(gap=Gap.SKIP, repeated=Repeated.BOTH),
    Dst(gap=Gap.SHIFT_BACK, repeated=Repeated.FIRST),
)
MOST_MEMORY = 4_000_000


def forget() -> None:
    for cache in (rrule._walk, rrule._last, cron._compiled):
        cache.cache_clear()


def cost(asked: Callable[[], object]) -> float:
    forget()
    began = time.process_time()
    asked()
    return time.process_time() - began


def look(plan: RecurrencePlan, count: int) -> int:
    return len(list(islice(occurrences(plan, START), count)))


def bombs() -> list[Any]:
    rules = [Rule(rrule=text, start_at=START) for text in RULES]
    rules += [Rule(cron=text) for text in CRONS]
    return [pytest.param(rule, id=(rule.rrule or rule.cron or "")[:60]) for rule in rules]


@pytest.fixture(scope="module")
def innocent() -> float:
    """Measure this machine: fifty runs of an ordinary rule, computed two hundred times."""
    plan = RecurrencePlan(Rule(cron="0 9 * * MON-FRI"), POLICIES[0])
    return sum(cost(partial(look, plan, 50)) for _ in range(200))


@pytest.mark.parametrize("rule", bombs())
def test_a_bomb_costs_few_steps(rule: Rule, monkeypatch: pytest.MonkeyPatch) -> None:
    spent: list[int] = []

    def spend(self: StepBudget, steps: int = 1) -> None:
        spent.append(steps)
        self.left -= steps
        assert self.left >= 0

    forget()
    monkeypatch.setattr(StepBudget, "spend", spend)
    look(RecurrencePlan(rule, POLICIES[0]), 50)
    # A walk to the horizon and back again, whatever the rule.
    assert sum(spent) < 2 * budget.MAX_STEPS


@pytest.mark.parametrize("rule", bombs())
def test_a_bomb_takes_no_time_and_no_memory(rule: Rule, innocent: float) -> None:
    for zone in ZONES:
        for dst in POLICIES:
            plan = RecurrencePlan(_in_zone(rule, zone), dst)
            first, preview = cost(partial(look, plan, 1)), cost(partial(look, plan, 50))
            # On an idle machine the worst of them take 25 ms and 30 ms.
            assert first < max(0.25, innocent)
            assert preview < max(0.5, 3 * innocent)
    forget()
    tracemalloc.start()
    look(plan, 50)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < MOST_MEMORY


def _in_zone(rule: Rule, zone: str) -> Rule:
    return Rule(cron=rule.cron, rrule=rule.rrule, start_at=rule.start_at, timezone=zone)


@pytest.mark.parametrize("change", ["2026-03-29T00:30Z", "2026-10-25T00:30Z"])
@pytest.mark.parametrize("dst", POLICIES)
def test_every_second_of_a_changed_hour_is_not_collected(
    change: str, dst: Dst, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = RecurrencePlan(Rule(cron="* * * * * *", timezone="Europe/Berlin"), dst)
    read = []
    walked = cron.matches

    def counted(text: str, start: datetime) -> Any:
        for each in walked(text, start):
            read.append(each)
            yield each

    monkeypatch.setattr(cron, "matches", counted)
    assert len(list(islice(occurrences(plan, datetime.fromisoformat(change)), 50))) == 50
    assert len(read) < 200


@pytest.mark.parametrize("zone", ["Pacific/Apia", "America/New_York", "Europe/Berlin"])
def test_what_has_ended_by_an_until_is_not_searched_for(
    zone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule = Rule(rrule="FREQ=SECONDLY;UNTIL=20260703T000000Z", start_at=START, timezone=zone)
    read = []
    walked = rrule.matches

    def counted(*asked: Any) -> Any:
        for each in walked(*asked):
            read.append(each)
            yield each

    monkeypatch.setattr(rrule, "matches", counted)
    until = datetime(2026, 7, 3, tzinfo=UTC)
    before = until - timedelta(seconds=2)
    found = [each.scheduled_for for each in occurrences(RecurrencePlan(rule, POLICIES[0]), before)]
    assert found == [until - timedelta(seconds=1), until]
    assert list(occurrences(RecurrencePlan(rule, POLICIES[0]), until)) == []
    assert len(read) < 50


def test_a_rule_beyond_the_budget_is_refused_when_it_is_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    forget()
    monkeypatch.setattr(budget, "MAX_STEPS", 1000)
    rule = Rule(
        rrule="FREQ=DAILY;INTERVAL=7;BYDAY=MO", start_at=datetime(2026, 1, 4, 9, tzinfo=UTC)
    )
    template: Any = Template(job={"destination": {"type": "worker"}})  # type: ignore[arg-type]
    definition = Definition(rule=rule, template=template, policies=Policies())
    with pytest.raises(RefusedError, match="takes more than 1000 steps") as refused:
        check(completed(definition, START), None, START, 0)
    assert refused.value.refusal.field == "rrule"


@pytest.mark.parametrize("roll", Roll)
def test_closures_are_leapt_over(roll: Roll) -> None:
    holidays = frozenset(date(2026, 1, 1) + timedelta(days=day) for day in range(20_000))
    plan = RecurrencePlan(
        Rule(cron="0 * * * *", roll=roll), POLICIES[0], Calendar("closed", holidays)
    )
    began = time.process_time()
    first = first_that_runs(plan, START)
    assert time.process_time() - began < 1
    assert first is not None
    opens = date(2026, 1, 1) + timedelta(days=20_000)
    assert abs(first.scheduled_for.date() - opens) < timedelta(days=3)


@pytest.mark.parametrize("rule", ["FREQ=SECONDLY", "FREQ=MINUTELY;INTERVAL=7"])
def test_what_rolls_too_often_is_not_followed_to_say_so(rule: str) -> None:
    holidays = frozenset(START.date() + timedelta(days=day) for day in range(5000))
    calendar = Calendar("closed", holidays)
    dense = Rule(rrule=rule, calendar="closed", roll=Roll.FOLLOWING)
    definition = completed(Definition(rule=dense, template=Template(), policies=Policies()), START)
    began = time.process_time()
    with pytest.raises(RefusedError, match="3600 s is the minimum"):
        check(definition, calendar, START, 0)
    preview = preview_unsaved(definition, calendar, START, 50, 0)
    assert time.process_time() - began < 1
    assert [warning.code for warning in preview.warnings] == ["too_often"]
    assert preview.occurrences == []


def test_an_end_on_the_wall_clock_hides_nothing_that_comes_too_often() -> None:
    # 14:30 in Los Angeles: seven more hours of it, though the end is past as a time in UTC.
    rule = Rule(rrule="FREQ=SECONDLY;UNTIL=20260328T220000", timezone="America/Los_Angeles")
    definition = completed(Definition(rule=rule, template=Template(), policies=Policies()), START)
    with pytest.raises(RefusedError, match="1 s apart; 60 s is the minimum"):
        check(definition, None, START, 60)
