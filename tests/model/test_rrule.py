"""Recurrence rules against dateutil, which shares no code with ours."""
# ruff: noqa: DTZ001 - rules speak of the wall clock

import random
from datetime import datetime, timedelta
from itertools import islice

import pytest
from dateutil.rrule import rrulestr

from postdate.model import rrule
from postdate.model.errors import RefusedError

CASES = 500
TIMES = 12
FREQS = ("YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY", "SECONDLY")
SUB_DAILY = ("FREQ=HOURLY", "FREQ=MINUTELY", "FREQ=SECONDLY")


def _some(draw: random.Random, low: int, high: int, most: int = 3) -> str:
    return ",".join(str(n) for n in sorted(draw.sample(range(low, high), draw.randint(1, most))))


def _days(draw: random.Random, *, nth: bool) -> str:
    chosen = draw.sample(["MO", "TU", "WE", "TH", "FR", "SA", "SU"], draw.randint(1, 3))
    return ",".join((draw.choice(["1", "2", "-1", "3"]) if nth else "") + day for day in chosen)


def _rule(draw: random.Random) -> str:
    freq = draw.choice(FREQS)
    parts = [f"FREQ={freq}", f"INTERVAL={draw.choice([1, 1, 1, 2, 3, 5])}"]
    by = []
    # dateutil walks an empty season second by second.
    if freq not in {"MINUTELY", "SECONDLY"} and draw.random() < 0.4:
        by.append(f"BYMONTH={_some(draw, 1, 13, 5)}")
    if freq != "WEEKLY" and draw.random() < 0.25:
        by.append(f"BYMONTHDAY={draw.choice(['-1', '1,15', '13', '28,-2', '31', '-3,30'])}")
    elif draw.random() < 0.5:
        by.append(f"BYDAY={_days(draw, nth=freq in {'YEARLY', 'MONTHLY'} and draw.random() < 0.5)}")
    elif freq == "YEARLY" and draw.random() < 0.5:
        by.append(draw.choice(["BYYEARDAY=1,100,-1", "BYWEEKNO=1,20,53", "BYWEEKNO=-1;BYDAY=MO"]))
    if draw.random() < 0.3:
        by.append(f"BYHOUR={_some(draw, 0, 24)}")
    if draw.random() < 0.3:
        by.append(f"BYMINUTE={_some(draw, 0, 60)}")
    if draw.random() < 0.2:
        by.append(f"BYSECOND={_some(draw, 0, 60)}")
    # dateutil lets the first week begin with the start; RFC 5545 knows only whole weeks.
    if by and freq not in {"WEEKLY", "SECONDLY"} and draw.random() < 0.3:
        by.append(f"BYSETPOS={draw.choice(['1', '-1', '2', '1,-1'])}")
    if draw.random() < 0.2:
        by.append("WKST=SU")
    return ";".join([*parts, *by])


def test_rules_agree_with_dateutil() -> None:
    draw = random.Random(20_260_101)
    compared = 0
    for number in range(CASES):
        text = _rule(draw)
        start = datetime(2023, 1, 1) + timedelta(seconds=draw.randrange(3 * 365 * 86_400))
        if draw.random() < 0.2:
            text += f";COUNT={draw.randint(1, 30)}"
        ours = list(islice(rrule.matches(text, start, start), TIMES))
        # dateutil walks empty time step by step, until the year 9999 if it must.
        if not ours or (text.startswith(SUB_DAILY) and ours[-1] - start > timedelta(days=40)):
            continue
        try:
            theirs = list(islice(rrulestr(text, dtstart=start), len(ours)))
        except ValueError:
            continue  # "Invalid combination of interval and by…": theirs looks no further
        assert ours == theirs, (number, text, start)
        compared += 1
        later = ours[len(ours) // 2]
        assert (
            list(islice(rrule.matches(text, start, later), 3))
            == [at for at in ours if at >= later][:3]
            or len(ours) < TIMES
        ), (text, start)
    assert compared > CASES * 0.7


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("FREQ=FORTNIGHTLY", "FREQ"),
        ("INTERVAL=2", "FREQ is missing"),
        ("FREQ=DAILY;INTERVAL=0", "INTERVAL"),
        ("FREQ=DAILY;BYHOUR=24", "BYHOUR"),
        ("FREQ=DAILY;BYDAY=1MO", "BYDAY"),
        ("FREQ=DAILY;COUNT=2;UNTIL=20300101", "COUNT and UNTIL"),
        ("FREQ=DAILY;UNTIL=20300230", "UNTIL"),
        ("FREQ=WEEKLY;BYMONTHDAY=1", "BYMONTHDAY"),
        ("FREQ=DAILY;BYSETPOS=1", "BYSETPOS"),
        ("FREQ=DAILY;FREQ=DAILY", "twice"),
        ("DTSTART:20200101;FREQ=DAILY", "DTSTART"),
        ("FREQ=DAILY;BYMONTHDAY=0", "BYMONTHDAY"),
        ("", "''"),
        ("FREQ=DAILY;" + "X" * 2000, "characters"),
    ],
)
def test_a_wrong_rule_is_refused_with_its_part(text: str, says: str) -> None:
    with pytest.raises(RefusedError) as refused:
        rrule.validate(text)
    assert says in refused.value.refusal.detail
    assert refused.value.refusal.field == "rrule"


@pytest.mark.parametrize(
    "text",
    [
        "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30",
        "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30",
        "FREQ=SECONDLY;INTERVAL=60;BYSECOND=7",
        "FREQ=SECONDLY;INTERVAL=86399;BYHOUR=3;BYMINUTE=1;BYSECOND=1",
        "FREQ=MINUTELY;INTERVAL=60;BYMINUTE=1",
        "FREQ=SECONDLY;BYMONTH=2;BYMONTHDAY=30",
        "FREQ=MONTHLY;BYDAY=MO;BYSETPOS=7",
        "FREQ=MONTHLY;INTERVAL=12;BYMONTH=5",
    ],
)
def test_a_rule_that_never_comes_ends_soon(text: str) -> None:
    start = datetime(2026, 1, 1, 9, 0, 0)
    assert list(islice(rrule.matches(text, start, start), 1)) == []


def test_until_in_utc_is_brought_to_the_wall_clock() -> None:
    start = datetime(2026, 1, 1, 9)
    text = "FREQ=DAILY;UNTIL=20260103T130000Z"
    new_york = timedelta(hours=-5)
    assert len(list(rrule.matches(text, start, start, new_york))) == 2
    assert len(list(rrule.matches(text, start, start))) == 3
