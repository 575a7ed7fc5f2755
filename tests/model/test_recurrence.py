"""What a rule means where it is easy to get wrong: ends, counts, closures, the words of cron."""

from datetime import UTC, date, datetime, timedelta
from itertools import islice
from typing import Any

import pytest

from postdate.recurrence import cron
from postdate.recurrence.calendar import Calendar, Roll
from postdate.recurrence.plan import RecurrencePlan, first_that_runs, occurrences
from postdate.recurrence.rule import Dst, Gap, Occurrence, Repeated, Rule, Status
from postdate.schedule.spec.rule import check, completed, first_run, plan_of
from postdate.schedule.spec.schedule import (
    Definition,
    JobTemplate,
    Misfire,
    MisfirePolicy,
    Policies,
    Template,
)
from postdate.schedule.spec.warning import warnings_of
from postdate.words.error import RefusedError

ORDINARY = Dst(gap=Gap.SHIFT_FORWARD, repeated=Repeated.FIRST)
WEEKENDS = Calendar("weekends", frozenset())
SECOND = timedelta(seconds=1)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def plan(dst: Dst = ORDINARY, calendar: Calendar | None = None, **rule: Any) -> RecurrencePlan:
    return RecurrencePlan(Rule(**rule), dst, calendar)


def all_of(asked: RecurrencePlan, after: datetime, most: int = 50) -> list[Occurrence]:
    return list(islice(occurrences(asked, after), most))


def instants(asked: RecurrencePlan, after: datetime, most: int = 50) -> list[str]:
    return [f"{each.scheduled_for:%m-%d %H:%M}" for each in all_of(asked, after, most)]


# UNTIL


@pytest.mark.parametrize(
    ("until", "last"),
    [
        ("20260328T080000Z", "03-28 08:00"),  # 09:00 in Berlin is 08:00 in UTC until the 28th
        ("20260329T065959Z", "03-28 08:00"),
        ("20260329T070000Z", "03-29 07:00"),  # and 07:00 from the 29th on
        ("20260329T080000Z", "03-29 07:00"),
        ("20260330T070000Z", "03-30 07:00"),
    ],
)
def test_until_in_utc_is_an_instant_also_beyond_a_change_of_the_clock(
    until: str, last: str
) -> None:
    text = f"FREQ=DAILY;UNTIL={until}"
    asked = plan(rrule=text, timezone="Europe/Berlin", start_at=at("2026-03-26T08:00"))
    assert instants(asked, at("2026-03-25T00:00"))[-1] == last


def test_until_in_utc_may_lie_between_the_two_readings_of_a_repeated_time() -> None:
    both = Dst(gap=Gap.SKIP, repeated=Repeated.BOTH)
    text = "FREQ=DAILY;BYHOUR=2;BYMINUTE=30;BYSECOND=0;UNTIL=20261025T010000Z"
    asked = plan(both, rrule=text, timezone="Europe/Berlin", start_at=at("2026-10-24T00:00"))
    assert instants(asked, at("2026-10-23T00:00")) == ["10-24 00:30", "10-25 00:30"]


def test_until_without_a_zone_is_a_time_on_the_wall_clock() -> None:
    asked = plan(
        rrule="FREQ=DAILY;UNTIL=20260330T090000", timezone="Europe/Berlin",
        start_at=at("2026-03-28T08:00"),
    )  # fmt: skip
    assert instants(asked, at("2026-03-01T00:00")) == ["03-28 08:00", "03-29 07:00", "03-30 07:00"]


def test_until_as_a_date_includes_that_day() -> None:
    asked = plan(rrule="FREQ=HOURLY;INTERVAL=12;UNTIL=20260102", start_at=at("2026-01-01T11:00"))
    found = [each.scheduled_for.isoformat() for each in all_of(asked, EARLY)]
    assert [each[8:13] for each in found] == ["01T11", "01T23", "02T11", "02T23"]


def test_what_the_calendar_moves_beyond_until_still_runs() -> None:
    asked = plan(
        calendar=WEEKENDS, roll=Roll.FOLLOWING,
        rrule="FREQ=DAILY;INTERVAL=2;UNTIL=20260110T090000Z", start_at=at("2026-01-06T09:00"),
    )  # fmt: skip
    assert instants(asked, at("2026-01-01T00:00")) == ["01-06 09:00", "01-08 09:00", "01-12 09:00"]


@pytest.mark.parametrize("offset", [0, 1])
def test_a_rule_with_one_occurrence_before_until_is_accepted(offset: int) -> None:
    rule = Rule(
        rrule=f"FREQ=DAILY;UNTIL=20260701T07000{offset}Z",
        timezone="Europe/Berlin", start_at=at("2026-07-01T07:00"),
    )  # fmt: skip
    _check(rule, at("2026-06-01T00:00"))


# COUNT and starts


def test_a_fractional_start_keeps_its_first_run() -> None:
    start = at("2026-01-01T09:00") + timedelta(milliseconds=250)
    asked = plan(rrule="FREQ=DAILY;COUNT=3", start_at=start)
    found = all_of(asked, at("2025-01-01T00:00"))
    assert [each.scheduled_for for each in found] == [
        at("2026-01-01T09:00:01") + timedelta(days=day) for day in range(3)
    ]


def test_nothing_runs_before_a_fractional_start() -> None:
    start = at("2026-01-01T09:00") + timedelta(microseconds=500)
    assert instants(plan(cron="* * * * *", start_at=start), EARLY, 1) == ["01-01 09:01"]


EARLY = at("2025-01-01T00:00")


@pytest.mark.parametrize(
    ("gap", "runs"), [(Gap.SKIP, 4), (Gap.SHIFT_FORWARD, 4), (Gap.SHIFT_BACK, 4)]
)
def test_times_that_the_clock_jumps_over_do_not_count(gap: Gap, runs: int) -> None:
    asked = plan(
        Dst(gap=gap, repeated=Repeated.FIRST), rrule="FREQ=DAILY;COUNT=4",
        timezone="Europe/Berlin", start_at=at("2026-03-27T01:30"),
    )  # fmt: skip
    found = [each for each in all_of(asked, EARLY) if each.skip is None]
    assert len(found) == runs
    assert found[-1].nominal_local.day == (31 if gap is Gap.SKIP else 30)


def test_a_count_that_would_end_in_a_missing_hour_goes_on_after_it() -> None:
    asked = plan(
        Dst(gap=Gap.SKIP, repeated=Repeated.FIRST), rrule="FREQ=MINUTELY;INTERVAL=20;COUNT=4",
        timezone="Europe/Berlin", start_at=at("2026-03-29T00:40"),
    )  # fmt: skip
    found = all_of(asked, EARLY)
    runs = [f"{each.nominal_local:%H:%M}" for each in found if each.skip is None]
    assert runs == ["01:40", "03:00", "03:20", "03:40"]
    assert sum(each.skip is Status.SKIPPED_BY_DST for each in found) == 3


def _check(rule: Rule, now: datetime, calendar: Calendar | None = None) -> None:
    template = Template(job=JobTemplate(destination=_WORKER))
    definition = Definition(rule=rule, template=template, policies=Policies())
    check(completed(definition, now), calendar, now, 0)


_WORKER: Any = {"type": "worker"}


def test_an_end_at_the_start_leaves_one_run() -> None:
    both = at("2026-01-01T09:00")
    _check(Rule(cron="0 9 * * *", start_at=both, end_at=both), EARLY)
    with pytest.raises(RefusedError, match=r"No occurrence runs between now and 2026-01-01"):
        _check(Rule(cron="0 8 * * *", start_at=both, end_at=both), EARLY)
    with pytest.raises(RefusedError, match="The end is before the start"):
        _check(Rule(cron="0 9 * * *", start_at=both, end_at=both - SECOND), EARLY)


# Closures


def test_a_rule_of_every_minute_can_be_made_on_a_closed_day() -> None:
    saturday = at("2026-01-10T00:00:30")
    _check(Rule(cron="* * * * *", calendar="weekends"), saturday, WEEKENDS)
    _check(Rule(every_seconds=1, calendar="weekends"), saturday, WEEKENDS)
    first = first_that_runs(plan(calendar=WEEKENDS, cron="* * * * * *"), saturday)
    assert first is not None
    assert first.scheduled_for == at("2026-01-12T00:00")


def test_a_closure_of_years_is_passed_at_once() -> None:
    days = frozenset(date(2026, 1, 1) + timedelta(days=day) for day in range(3000))
    asked = plan(calendar=Calendar("closed", days), cron="* * * * * *")
    first = first_that_runs(asked, at("2026-01-01T00:00"))
    assert first is not None
    assert first.scheduled_for == at("2034-03-20T00:00")


@pytest.mark.parametrize("roll", Roll)
def test_no_two_runs_share_an_instant_around_an_excluded_date(roll: Roll) -> None:
    # Friday open; Saturday and Sunday closed; Sunday excluded too; Monday a holiday.
    calendar = Calendar("a", frozenset({date(2026, 1, 12)}))
    asked = plan(calendar=calendar, cron="0 9 * * *", roll=roll, exclude_dates=(date(2026, 1, 11),))
    found = all_of(asked, at("2026-01-05T00:00"), 20)
    runs = [each.scheduled_for for each in found if each.skip is None]
    assert len(runs) == len(set(runs))
    ordered = [each.scheduled_for for each in found]
    assert ordered == sorted(ordered)


@pytest.mark.parametrize(
    ("roll", "target"), [(Roll.FOLLOWING, date(2026, 1, 12)), (Roll.PRECEDING, date(2026, 1, 9))]
)
def test_nothing_runs_on_an_excluded_date_not_even_what_rolls_there(
    roll: Roll, target: date
) -> None:
    asked = plan(calendar=WEEKENDS, cron="0 9 10 * *", roll=roll, exclude_dates=(target,))
    first = all_of(asked, at("2026-01-05T00:00"), 1)[0]
    assert first.skip is Status.SKIPPED_BY_CALENDAR
    assert first.notes == (f"rolled_{roll}", "excluded_date")
    assert first.scheduled_for.date() == target


# Sparse rules


@pytest.mark.parametrize(
    ("text", "first", "second"),
    [
        ("FREQ=HOURLY;INTERVAL=25;BYHOUR=9", "2026-01-01", "2026-01-26"),
        ("FREQ=MINUTELY;INTERVAL=1441;BYHOUR=9;BYMINUTE=0", "2026-01-01", "2029-12-12"),
        ("FREQ=SECONDLY;INTERVAL=86399;BYHOUR=9;BYMINUTE=0;BYSECOND=0", "2026-01-01", None),
        ("FREQ=HOURLY;INTERVAL=1000;BYMONTH=2;BYMONTHDAY=29", "2032-02-29", None),
        ("FREQ=SECONDLY;INTERVAL=86399;BYHOUR=3;BYMINUTE=1;BYSECOND=1", "2084-12-21", None),
    ],
)
def test_sparse_rules_are_followed_to_their_next_occurrence(
    text: str, first: str, second: str | None
) -> None:
    asked = plan(rrule=text, start_at=at("2026-01-01T09:00"))
    found = [f"{each.scheduled_for:%Y-%m-%d}" for each in all_of(asked, EARLY, 2)]
    assert found == [first] + ([second] if second else [])


# The words of cron


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("0 9 * * FRIL", "0 9 * * 5L"),
        ("0 9 * * fril,monl", "0 9 * * 5L,1L"),
        ("0 9 * * 5/2", "0 9 * * FRI,SUN"),
        ("0 9 * * */2", "0 9 * * SUN,TUE,THU,SAT"),
        ("0 */7 * * *", "0 0,7,14,21 * * *"),
        ("0 9 */10 * *", "0 9 1,11,21,31 * *"),
        ("0 5/6 * * *", "0 5,11,17,23 * * *"),
        ("0 9 * * SAT-SUN", "0 9 * * 6,0"),
        ("0 9 * * FRI-SUN", "0 9 * * 5,6,0"),
        ("0 9 * * MON-SUN", "0 9 * * *"),
        ("0 9 * * fri-mon/2,wed", "0 9 * * 5,0,3"),
        ("0 9 * * 7-2", "0 9 * * 0,1,2"),
        ("0 9 1 NOV-FEB *", "0 9 1 11,12,1,2 *"),
        ("0 9 1 11-2/3 *", "0 9 1 11,2 *"),
    ],
)
def test_cron_fields_that_mean_the_same(text: str, same: str) -> None:
    start = datetime(2026, 1, 5)  # noqa: DTZ001 - a wall clock
    ours, others = (list(islice(cron.matches(each, start), 40)) for each in (text, same))
    assert ours == others


def test_a_star_with_a_step_in_one_day_field_still_narrows_the_other() -> None:
    start = datetime(2026, 1, 1)  # noqa: DTZ001 - a wall clock
    found = islice(cron.matches("0 9 */2 * MON", start), 20)
    assert all(each.weekday() == 0 and each.day % 2 == 1 for each in found)


@pytest.mark.parametrize(
    "text",
    [
        "*/99999999999999999999 * * * *",
        "*/61 * * * *",
        "0 */25 * * *",
        "0 0 * * */8",
        "\u0663 * * * *",
        "0 9 * * \u017fUN",
        "0 9 * * XXXL",
        "0 9 L-3 * *",
        "0 9 * * FRIDAYL",
        "0 9 * * FRI-FOO",
        "0 9 * * 9-1",
        "0 9 * * SAT-SUN/0",
        "0 9 1 13-2 *",
        "0 22-6 * * *",
        "",
    ],
)
def test_a_wrong_cron_expression_is_refused(text: str) -> None:
    with pytest.raises(RefusedError) as refused:
        cron.validate(text)
    assert refused.value.refusal.field == "cron"


# Warnings

START = at("2026-01-01T09:00")
ALL_AT_ONE = Misfire(policy=MisfirePolicy.FIRE_ALL, per_minute=1)


@pytest.mark.parametrize(
    ("rule", "misfire", "codes"),
    [
        (Rule(cron="0 9 * * *"), Misfire(), []),
        (Rule(cron="0 9 30 2 MON-FRI", end_at=at("2026-01-02T00:00")), Misfire(), ["never_fires"]),
        (Rule(cron="* * * * * *"), Misfire(), ["too_often"]),
        (Rule(cron="0 9 29 2 *"), Misfire(), ["leap_day_only"]),
        (Rule(rrule="FREQ=YEARLY", start_at=at("2028-02-29T09:00")), Misfire(), ["leap_day_only"]),
        (Rule(rrule="FREQ=YEARLY;BYMONTHDAY=29", start_at=START), Misfire(), ["every_month"]),
        (Rule(rrule="FREQ=YEARLY;BYMONTHDAY=29;BYMONTH=1", start_at=START), Misfire(), []),
        (Rule(rrule="FREQ=MONTHLY;BYMONTHDAY=29", start_at=START), Misfire(), []),
        (Rule(every_seconds=60), ALL_AT_ONE, ["never_recovers"]),
        (Rule(every_seconds=61), ALL_AT_ONE, []),
        (Rule(every_seconds=60), Misfire(per_minute=1), []),
    ],
)  # fmt: skip
def test_warnings_say_what_is_legal_but_hardly_meant(
    rule: Rule, misfire: Misfire, codes: list[str]
) -> None:
    policies = Policies(misfire=misfire)
    definition = Definition(rule=rule, template=Template(), policies=policies)
    found = warnings_of(plan_of(definition), policies, at("2026-01-01T12:00"), 5)
    assert [each.code for each in found] == codes


def test_a_leap_day_on_which_a_common_rule_happens_to_run_is_no_reason_to_warn() -> None:
    definition = Definition(rule=Rule(cron="* * * * *"), template=Template(), policies=Policies())
    assert warnings_of(plan_of(definition), Policies(), at("2028-02-29T12:00")) == []


# Where a rule without a start begins


@pytest.mark.parametrize(
    ("text", "begins"),
    [
        ("FREQ=DAILY;BYHOUR=9;BYMINUTE=0", "2026-01-02T09:00:00"),
        ("FREQ=HOURLY", "2026-01-01T12:01:00"),
        ("FREQ=MINUTELY;BYSECOND=30", "2026-01-01T12:01:30"),
        ("FREQ=SECONDLY;INTERVAL=10", "2026-01-01T12:00:17"),
    ],
)
def test_a_rule_without_a_start_runs_on_the_minute(text: str, begins: str) -> None:
    now = at("2026-01-01T12:00:16.5")
    written = Definition(rule=Rule(rrule=text), template=Template(), policies=Policies())
    first = first_run(plan_of(completed(written, now)), now)
    assert first is not None
    assert first.scheduled_for == at(begins)
