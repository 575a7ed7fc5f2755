"""Rules that their calendar never lets run: found out in a few leaps, and no other is harmed."""

from datetime import UTC, date, datetime, timedelta
from itertools import islice

import pytest

from postdate.recurrence import plan as plans
from postdate.recurrence.calendar import Calendar, Roll
from postdate.recurrence.days import Days
from postdate.recurrence.plan import RecurrencePlan, first_that_runs, occurrences
from postdate.recurrence.rule import Dst, Occurrence, Rule

NOW = datetime(2026, 11, 17, tzinfo=UTC)
WEEKENDS = Calendar("weekends", frozenset())
CHRISTMAS = Calendar("christmas", frozenset(date(year, 12, 25) for year in range(2026, 2200)))
ALWAYS = Calendar("always", frozenset(), frozenset(range(1, 8)))
LEAPS_MOST = 5


@pytest.mark.parametrize("timezone", ["UTC", "America/New_York"])
@pytest.mark.parametrize(
    ("rule", "calendar"),
    [
        (Rule(cron="0 9 * * 6"), WEEKENDS),
        (Rule(cron="*/5 * * * 6,0"), WEEKENDS),
        (Rule(cron="0 0 25 12 *"), CHRISTMAS),
        (Rule(rrule="FREQ=WEEKLY;INTERVAL=2;BYDAY=SA"), WEEKENDS),
        (Rule(rrule="FREQ=MINUTELY;INTERVAL=7;BYDAY=SA,SU"), WEEKENDS),
        (Rule(rrule="FREQ=MONTHLY;BYDAY=SA,SU;BYSETPOS=1"), WEEKENDS),
        (Rule(cron="* * * * *"), ALWAYS),
        (Rule(cron="* * * * *", roll=Roll.FOLLOWING), ALWAYS),
        (Rule(every_seconds=43_200), ALWAYS),
    ],
)
def test_what_never_runs_is_found_out_in_a_few_leaps(
    rule: Rule, calendar: Calendar, timezone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    leaps: list[Occurrence] = []
    reopening = plans._reopening

    def counted(plan: RecurrencePlan, open_days: Days, closed: Occurrence) -> datetime:
        leaps.append(closed)
        return reopening(plan, open_days, closed)

    monkeypatch.setattr(plans, "_reopening", counted)
    zoned = RecurrencePlan(_in_zone(rule, timezone), Dst(), calendar)
    assert first_that_runs(zoned, NOW) is None
    assert len(leaps) <= LEAPS_MOST


@pytest.mark.parametrize("roll", [Roll.NONE, Roll.FOLLOWING, Roll.PRECEDING])
@pytest.mark.parametrize("timezone", ["UTC", "America/Sao_Paulo", "Africa/Cairo"])
@pytest.mark.parametrize(
    "rule",
    [
        Rule(cron="30 0 * * *"),
        Rule(cron="30 23 * * 5,6"),
        Rule(cron="0 0 1 * *"),
        Rule(rrule="FREQ=DAILY;INTERVAL=3;BYHOUR=0;BYMINUTE=15"),
        Rule(rrule="FREQ=MONTHLY;BYDAY=1SU,2MO"),
        Rule(every_seconds=100_000),
    ],
)
def test_leaps_find_what_walking_finds(rule: Rule, timezone: str, roll: Roll) -> None:
    """The zones change their clocks at midnight: days move where others only have hours moved."""
    calendar = Calendar("odd", frozenset({date(2018, 11, 5), date(2018, 12, 24)}), frozenset({6}))
    own = Roll.NONE if rule.every_seconds else roll
    plan = RecurrencePlan(_in_zone(rule, timezone, own), Dst(), calendar)
    for days in range(0, 120, 3):
        after = datetime(2018, 9, 20, 12, tzinfo=UTC) + timedelta(days=days)
        walked = (each for each in islice(occurrences(plan, after), 5000) if each.skip is None)
        assert first_that_runs(plan, after) == next(walked, None)


def _in_zone(rule: Rule, timezone: str, roll: Roll | None = None) -> Rule:
    fields = {name: getattr(rule, name) for name in rule.__struct_fields__}
    return Rule(**fields | {"timezone": timezone, "roll": roll or rule.roll})
