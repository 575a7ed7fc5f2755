"""Days and seconds of rules in UTC, against their occurrences, and how much of it is remembered."""

from datetime import UTC, datetime, timedelta

import pytest

from postdate.recurrence import run_days as module
from postdate.recurrence.compiled import CompiledRule
from postdate.recurrence.plan import RecurrencePlan
from postdate.recurrence.rule import Dst, Gap, Repeated, Rule
from postdate.recurrence.run_days import day_times, every_days, run_days

DAY = timedelta(days=1)


@pytest.mark.parametrize("gap", Gap)
@pytest.mark.parametrize("repeated", Repeated)
@pytest.mark.parametrize(
    ("timezone", "begin"),
    [
        ("Europe/Berlin", datetime(2027, 3, 20, tzinfo=UTC)),
        ("Europe/Berlin", datetime(2027, 10, 20, tzinfo=UTC)),
        ("Australia/Lord_Howe", datetime(2027, 3, 28, tzinfo=UTC)),
        ("Pacific/Apia", datetime(2011, 12, 22, tzinfo=UTC)),
    ],
)
def test_days_of_utc_hold_every_occurrence_once(
    timezone: str, begin: datetime, gap: Gap, repeated: Repeated
) -> None:
    rule = Rule(cron="*/20 * * * *", timezone=timezone)
    compiled = CompiledRule(RecurrencePlan(rule, Dst(gap=gap, repeated=repeated)))
    found = sorted(
        begin + place * DAY + timedelta(seconds=second)
        for days, seconds in compiled.run_days(begin.toordinal(), 16)
        for place in range(16)
        if days >> place & 1
        for second in seconds.seconds
    )
    expected = list(compiled.occurrences(begin - timedelta(seconds=1), begin + 16 * DAY))
    assert found == expected


def test_seconds_of_days_are_remembered_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = module._SecondsMemory()
    monkeypatch.setattr(module, "_memory", memory)
    monkeypatch.setattr(module, "MAX_BYTES", 40_000)
    first = datetime(2027, 3, 1, tzinfo=UTC).toordinal()
    for second in range(300):
        times = day_times(tuple(range(second, second + 7200, 60)))
        assert list(run_days(every_days(1, 0), times, "Europe/Berlin", Dst(), first, 60))
        kept = sum(each.bytes for each in memory._known.values())
        assert 20_000 < kept == memory._size <= 40_000 or second < 10
