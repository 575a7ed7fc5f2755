"""Rules in words."""

import pytest

from postdate.model.recurrence.words import in_words


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


async def test_intervals_and_cron_are_said_in_words() -> None:
    assert in_words(None, 86_400, None) == "Every day"
    assert in_words(None, 900, None) == "Every 15 minutes"
    assert in_words(None, 90, None) == "Every 90 seconds"
    assert in_words("30 4 * * 1-5", None, None) == "At 04:30 on Monday through Friday"
    assert in_words("not cron", None, None) == "not cron"
