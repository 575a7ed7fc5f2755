"""Rules in words."""

from datetime import UTC, datetime

import pytest

from postdate.recurrence.words import in_words


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=9;BYMINUTE=30", "Every month on the last Fri at 09:30"),
        ("FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,WE", "Every 2 weeks on Mon, Wed"),
        (
            "FREQ=MONTHLY;BYMONTHDAY=1,22,-1;COUNT=3",
            "Every month on the 1st, the 22nd, the last day (3 times)",
        ),
        (
            "FREQ=YEARLY;BYMONTH=3;BYDAY=2SU;UNTIL=20301231T000000Z",
            "Every year in Mar on the 2nd Sun until 2030-12-31",
        ),
        ("FREQ=MONTHLY;BYDAY=MO,TU;BYSETPOS=-1", "Every month on Mon, Tue (last of each set)"),
        (
            "FREQ=DAILY;BYHOUR=8;BYMINUTE=5;BYSECOND=7",
            "Every day at 08:05:07",
        ),
        (
            "FREQ=YEARLY;BYWEEKNO=1;BYYEARDAY=111",
            "Every year in week 1 on the 111th day of the year",
        ),
        ("no rule", "no rule"),
    ],
)
async def test_a_recurrence_rule_is_said_in_words(rule: str, words: str) -> None:
    assert in_words(None, None, rule) == words


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("FREQ=DAILY;BYHOUR=9", "Every day at 09:20:30"),
        ("FREQ=DAILY;BYHOUR=9;BYMINUTE=0;BYSECOND=0", "Every day at 09:00"),
        ("FREQ=DAILY;BYMINUTE=5;BYSECOND=0", "Every day at 01:05"),
        ("FREQ=WEEKLY;BYSECOND=0", "Every week on Sat at 01:20"),
        ("FREQ=MONTHLY;BYSECOND=0", "Every month on the 2nd at 01:20"),
        ("FREQ=YEARLY;BYSECOND=0", "Every year in Jan on the 2nd at 01:20"),
        ("FREQ=YEARLY;BYMONTHDAY=29;BYSECOND=0", "Every year on the 29th of every month at 01:20"),
        (
            "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29;BYSECOND=0",
            "Every year in Feb on the 29th at 01:20",
        ),
        ("FREQ=HOURLY;BYSECOND=0", "Every hour at minute 20"),
        ("FREQ=MINUTELY;BYHOUR=9;BYSECOND=0", "Every minute at hour 9"),
    ],
)
async def test_what_a_rule_takes_from_its_start_is_said(rule: str, words: str) -> None:
    start_at = datetime(2027, 1, 2, 0, 20, 29, 500_000, tzinfo=UTC)
    assert in_words(None, None, rule, start_at, "Europe/Berlin") == words


async def test_without_a_start_no_minute_is_invented() -> None:
    assert in_words(None, None, "FREQ=DAILY;BYHOUR=9") == "Every day at hour 9"


async def test_intervals_and_cron_are_said_in_words() -> None:
    assert in_words(None, 86_400, None) == "Every day"
    assert in_words(None, 900, None) == "Every 15 minutes"
    assert in_words(None, 90, None) == "Every 90 seconds"
    assert in_words("30 4 * * 1-5", None, None) == "At 04:30 on Monday through Friday"
    assert in_words("not cron", None, None) == "not cron"
