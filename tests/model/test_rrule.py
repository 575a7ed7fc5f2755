"""The text of recurrence rules: what is refused, and what never comes."""
# ruff: noqa: DTZ001 - rules speak of the wall clock

from datetime import datetime
from itertools import islice

import pytest

from postdate.recurrence import rrule
from postdate.words.error import RefusedError


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("FREQ=FORTNIGHTLY", "FREQ"),
        ("INTERVAL=2", "FREQ is missing"),
        ("FREQ=DAILY;INTERVAL=0", "INTERVAL"),
        ("FREQ=DAILY;BYHOUR=24", "BYHOUR"),
        ("FREQ=DAILY;BYDAY=1MO", "BYDAY"),
        ("FREQ=MONTHLY;BYDAY=+00MO", "BYDAY"),
        ("FREQ=MONTHLY;BYDAY=-00MO", "BYDAY"),
        ("FREQ=DAILY;COUNT=2;UNTIL=20300101", "COUNT and UNTIL"),
        ("FREQ=DAILY;UNTIL=20300230", "UNTIL"),
        ("FREQ=WEEKLY;BYMONTHDAY=1", "BYMONTHDAY"),
        ("FREQ=DAILY;BYSETPOS=1", "BYSETPOS"),
        ("FREQ=DAILY;FREQ=DAILY", "twice"),
        ("DTSTART:20200101;FREQ=DAILY", "start_at"),
        ("DTSTART;TZID=Europe/Berlin:20260101T090000\nRRULE:FREQ=DAILY", "start_at"),
        ("RRULE:FREQ=DAILY\nEXDATE:20260101T090000Z", "exclude_dates"),
        ("RRULE:FREQ=DAILY\r\nRDATE:20260101T090000Z", "second schedule"),
        ("RRULE:FREQ=DAILY\nEXRULE:FREQ=WEEKLY", "EXRULE is not supported"),
        ("RRULE:FREQ=DAILY\nRRULE:FREQ=WEEKLY", "one rule"),
        ("RSCALE=HEBREW;FREQ=YEARLY", "Gregorian"),
        ("FREQ=MONTHLY;SKIP=BACKWARD;BYMONTHDAY=31", "SKIP is not supported"),
        ("FREQ=DAILY;;", "''"),
        ("FREQ=DAILY;BYMONTHDAY=0", "BYMONTHDAY"),
        ("FREQ=DAILY;BYHOUR=\u0661", "ASCII"),
        ("FREQ=\u017fECONDLY", "ASCII"),
        ("FREQ=DAILY;BYHOUR=+1", "BYHOUR"),
        ("FREQ=DAILY;INTERVAL=100001", "INTERVAL"),
        ("FREQ=MINUTELY;BYSECOND=61", "BYSECOND"),
        ("FREQ=DAILY;COUNT=10001", "COUNT"),
        ("FREQ=DAILY;COUNT=2;UNTIL=20300101T000000Z", "COUNT and UNTIL"),
        ("", "''"),
        ("FREQ=DAILY;" + "X" * 2000, "characters"),
    ],
)
def test_a_wrong_rule_is_refused_with_its_part(text: str, says: str) -> None:
    with pytest.raises(RefusedError) as refused:
        rrule.validate(text)
    assert says in refused.value.refusal.detail
    assert refused.value.refusal.field == "rrule"


def test_a_rule_may_end_with_a_semicolon() -> None:
    assert rrule.validate("RRULE:FREQ=DAILY;COUNT=3;") == rrule.validate("FREQ=DAILY;COUNT=3")


@pytest.mark.parametrize(
    "text",
    [
        "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30",
        "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30",
        "FREQ=SECONDLY;INTERVAL=60;BYSECOND=7",
        "FREQ=SECONDLY;INTERVAL=86399;BYHOUR=9;BYMINUTE=0;BYSECOND=1",
        "FREQ=HOURLY;INTERVAL=168;BYDAY=MO",
        "FREQ=WEEKLY;BYDAY=MO;BYSETPOS=2",
        "FREQ=DAILY;BYHOUR=1;BYSETPOS=366",
        "FREQ=SECONDLY;BYHOUR=1;BYSETPOS=2",
        "FREQ=MINUTELY;INTERVAL=60;BYMINUTE=1",
        "FREQ=SECONDLY;BYMONTH=2;BYMONTHDAY=30",
        "FREQ=MONTHLY;BYDAY=MO;BYSETPOS=7",
        "FREQ=MONTHLY;INTERVAL=12;BYMONTH=5",
    ],
)
def test_a_rule_that_never_comes_ends_soon(text: str) -> None:
    start = datetime(2026, 1, 1, 9, 0, 0)
    assert list(islice(rrule.matches(text, start, start), 1)) == []
