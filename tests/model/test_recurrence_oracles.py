"""Rules drawn with fixed seeds, against libraries that share no code with ours.

Where a library differs, `docs/concepts/recurrence.md` says who is right; the last tests here hold
each row of its table to what both really answer.
"""
# ruff: noqa: DTZ001 - rules speak of the wall clock

import random
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from itertools import islice, takewhile
from zoneinfo import ZoneInfo

import icalendar
import pytest
import recurring_ical_events
from apscheduler.triggers.cron import CronTrigger
from croniter import croniter
from dateutil.rrule import rrulestr

from postdate.recurrence import cron, rrule
from postdate.recurrence.calendar import Calendar, Roll
from postdate.recurrence.plan import RecurrencePlan, occurrences
from postdate.recurrence.rule import Dst, Gap, Occurrence, Repeated, Rule
from support.recurrence_case import (
    MONTHS,
    ORDINALS,
    WEEKDAYS,
    CronCase,
    cron_case,
    moment,
    rrule_case,
)
from support.schedule_oracle import DAY, Closed

TIMES = 5
CRON_CASES, APS_CASES, RRULE_CASES, ICAL_CASES, ROLL_CASES = 2000, 300, 2000, 100, 400
SOAK_SEEDS = range(1, 11)
SECOND = timedelta(seconds=1)
soak = pytest.mark.soak


def with_soak(first: int) -> list[object]:
    """One seed for `make test`, ten more for `make soak`."""
    return [first, *(pytest.param(first + more, marks=soak) for more in SOAK_SEEDS)]


def _croniter(text: str, start: datetime) -> Iterator[datetime]:
    # Vixie's rule, as ours: a day field that begins with a star is joined to the other by "and".
    walk = croniter(text, start, second_at_beginning=True, implement_cron_bug=True)
    while True:
        yield walk.get_next(datetime)


def _for_croniter(case: CronCase) -> str:
    match case.special:
        case "last_weekday":
            return case.text[:-2] + f"L{case.text[-2]}"
        case "named_last":
            return case.text[:-4] + f"L{WEEKDAYS.index(case.text[-4:-1])}"
        case _:
            return case.text


@pytest.mark.parametrize("seed", with_soak(16_000))
def test_cron_expressions_agree_with_croniter(seed: int) -> None:
    draw = random.Random(seed)
    for number in range(CRON_CASES):
        case = cron_case(draw)
        ours = list(islice(cron.matches(case.text, case.start + SECOND), TIMES))
        theirs = list(islice(_croniter(_for_croniter(case), case.start), len(ours)))
        assert len(ours) == TIMES, case
        assert ours == theirs, (number, case)


def _for_apscheduler(case: CronCase) -> CronTrigger:
    day, weekday = case.day, case.weekday
    match case.special:
        case "last":
            day = "last"
        case "last_weekday":
            day, weekday = f"last {WEEKDAYS[int(weekday[0])].lower()}", "*"
        case "named_last":
            day, weekday = f"last {weekday[:3].lower()}", "*"
        case "nth":
            name, _, nth = weekday.partition("#")
            name = WEEKDAYS[int(name)] if name.isdigit() else name
            day, weekday = f"{ORDINALS[int(nth)]} {name.lower()}", "*"
    month = case.month
    for number, name in enumerate(MONTHS, 1):
        month = month.replace(name, str(number))
    return CronTrigger(
        second=case.second,
        minute=case.minute,
        hour=case.hour,
        day=day,
        month=month,
        day_of_week=_named_weekdays(weekday),
        timezone=UTC,
    )


def _named_weekdays(weekday: str) -> str:
    """Tell weekdays by name: their week begins with Monday, and ranges do not pass its end."""
    if weekday == "*":
        return weekday
    sim = next(iter(weekday.split("/")))
    step = int(weekday.partition("/")[2] or 1)
    values: list[int] = []
    for part in sim.split(","):
        ends = [WEEKDAYS.index(end) if end in WEEKDAYS else end for end in part.split("-")]
        numbers = [0, 6] if ends == ["*"] else [int(end) for end in ends]
        values += range(numbers[0], numbers[-1] + 1)
    return ",".join(WEEKDAYS[value].lower() for value in values[::step])


def _apscheduler(trigger: CronTrigger, start: datetime) -> Iterator[datetime]:
    at: datetime | None = start.replace(tzinfo=UTC) + SECOND
    while at is not None:
        at = trigger.get_next_fire_time(None, at)
        if at is not None:
            yield at.replace(tzinfo=None)
            at += SECOND


@pytest.mark.parametrize("seed", with_soak(17_000))
def test_cron_expressions_agree_with_apscheduler(seed: int) -> None:
    draw = random.Random(seed)
    compared = 0
    while compared < APS_CASES:
        case = cron_case(draw)
        if case.both_days:
            continue  # there both day fields must agree; crontab wants either
        ours = list(islice(cron.matches(case.text, case.start + SECOND), TIMES))
        try:
            trigger = _for_apscheduler(case)
        except ValueError:
            continue  # theirs refuses a step that leads out of its range
        theirs = list(islice(_apscheduler(trigger, case.start), len(ours)))
        assert ours == theirs, case
        compared += 1


@pytest.mark.parametrize("seed", with_soak(18_000))
def test_recurrence_rules_agree_with_dateutil(seed: int) -> None:
    draw = random.Random(seed)
    compared = 0
    while compared < RRULE_CASES:
        case = rrule_case(draw)
        ours = list(islice(rrule.matches(case.text, case.start, case.start), TIMES))
        # dateutil walks empty time step by step, until the year 9999 if it must.
        if not ours or (case.sub_daily and ours[-1] - case.start > timedelta(days=20)):
            continue
        try:
            theirs = list(islice(rrulestr(case.text, dtstart=case.start), len(ours)))
        except ValueError:
            continue  # "Invalid combination of interval and by…": theirs looks no further
        assert ours == theirs, case
        later = ours[len(ours) // 2]
        again = list(islice(rrule.matches(case.text, case.start, later), 2))
        assert again == [at for at in ours if at >= later][:2], case
        compared += 1


@pytest.mark.parametrize("week", [1, 2, 20, 52, 53, -1, -2, -52, -53])
def test_week_numbers_are_those_of_iso_8601(week: int) -> None:
    text = f"FREQ=YEARLY;BYWEEKNO={week};BYDAY=MO,TU,WE,TH,FR,SA,SU;BYHOUR=0;BYMINUTE=0;BYSECOND=0"
    begin, end = date(1990, 1, 1), date(2110, 1, 1)

    def chosen(day: date) -> bool:
        last = date(day.isocalendar().year, 12, 28).isocalendar().week
        return day.isocalendar().week in {week, last + 1 + week}

    days = (date.fromordinal(at) for at in range(begin.toordinal(), end.toordinal()))
    start = datetime(1990, 1, 1)
    ours = takewhile(lambda at: at.date() < end, rrule.matches(text, start, start))
    assert [at.date() for at in ours] == [day for day in days if chosen(day)]


ZONES = ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Tokyo", "UTC")


def _ical_rule(draw: random.Random) -> str:
    rule = draw.choice([
        "FREQ=DAILY", "FREQ=DAILY;INTERVAL=3", "FREQ=WEEKLY;BYDAY=MO,WE,SU", "FREQ=MONTHLY",
        "FREQ=MONTHLY;BYDAY=-1FR", "FREQ=MONTHLY;BYMONTHDAY=1,15,-1", "FREQ=YEARLY;BYMONTH=3,10",
        "FREQ=WEEKLY;INTERVAL=2;BYDAY=SU;WKST=SU",
    ])  # fmt: skip
    return rule + draw.choice(["", "", ";COUNT=9", ";UNTIL=%s"])


@pytest.mark.parametrize("seed", with_soak(19_000))
def test_events_in_zones_agree_with_recurring_ical_events(seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(ICAL_CASES):
        place = ZoneInfo(draw.choice(ZONES))
        start = moment(draw, 2025, 1).replace(hour=draw.choice([0, 1, 2, 9]), minute=30, second=0)
        # Theirs counts the start as an occurrence; ours begins with the rule's own first one.
        text = _ical_rule(draw)
        start = next(rrule.matches(text.partition(";UNTIL")[0], start, start))
        if "UNTIL" in text:
            last = (start + draw.randrange(300) * DAY).replace(tzinfo=place)
            near = last.astimezone(UTC) + draw.choice([-1, 0, 1]) * SECOND
            text %= f"{near:%Y%m%dT%H%M%SZ}"
        excluded = tuple(start.date() + draw.randrange(1, 200) * DAY for _ in range(3))
        begin, end = datetime(2025, 1, 1, tzinfo=UTC), datetime(2026, 12, 1, tzinfo=UTC)
        ours = _runs(text, place, start, excluded, begin, end)
        assert ours == _events(text, place, start, excluded, begin, end), (text, place, start)


def _runs(
    text: str, place: ZoneInfo, start: datetime, excluded: tuple[date, ...], begin: datetime,
    end: datetime,
) -> list[datetime]:  # fmt: skip
    rule = Rule(
        rrule=text,
        timezone=place.key,
        start_at=start.replace(tzinfo=place).astimezone(UTC),
        exclude_dates=excluded,
    )
    plan = RecurrencePlan(rule, Dst(gap=Gap.SHIFT_FORWARD, repeated=Repeated.FIRST))
    found = takewhile(lambda each: each.scheduled_for < end, occurrences(plan, begin - SECOND))
    return [each.scheduled_for for each in found if each.skip is None]


def _events(
    text: str, place: ZoneInfo, start: datetime, excluded: tuple[date, ...], begin: datetime,
    end: datetime,
) -> list[datetime]:  # fmt: skip
    event = icalendar.Event()
    event.add("uid", "1")
    event.add("dtstart", start.replace(tzinfo=place))
    event.add("duration", timedelta(0))
    event.add("rrule", icalendar.vRecur.from_ical(text))
    for day in excluded:
        event.add("exdate", datetime.combine(day, start.time(), place))
    calendar = icalendar.Calendar()
    calendar.add_component(event)
    found = recurring_ical_events.of(calendar).between(begin, end)
    return sorted(each["DTSTART"].dt.astimezone(UTC) for each in found)


@pytest.mark.parametrize("seed", with_soak(20_000))
def test_business_days_agree_with_a_plain_account(seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(ROLL_CASES):
        begin = date(2026, 1, 1) + draw.randrange(300) * DAY
        holidays = frozenset(begin + draw.randrange(60) * DAY for _ in range(draw.randrange(25)))
        excluded = frozenset(begin + draw.randrange(60) * DAY for _ in range(draw.randrange(6)))
        closed = Closed(holidays, draw.choice(list(Roll)).value)
        hours = sorted(draw.sample(range(24), draw.randint(1, 3)))
        days = draw.choice(["*", "*", "1,15", "*/2", "28-31"])
        rule = Rule(
            cron=f"0 {','.join(map(str, hours))} {days} * *",
            calendar="a",
            roll=Roll(closed.roll),
            exclude_dates=tuple(excluded),
        )
        wanted = _plain(rule, closed, excluded, begin)
        plan = RecurrencePlan(
            rule, Dst(gap=Gap.SKIP, repeated=Repeated.FIRST), Calendar("a", holidays)
        )
        found = _until(plan, datetime.combine(begin, datetime.min.time(), UTC), 45 * DAY)
        runs = [each for each in found if each.skip is None]
        assert [each.scheduled_for for each in runs] == sorted(wanted), (rule, closed)
        for each in runs:
            nominals = {each.nominal_local, *each.merged}
            assert nominals == wanted[each.scheduled_for], (rule, closed)


def _until(plan: RecurrencePlan, first: datetime, span: timedelta) -> list[Occurrence]:
    end = first + span
    return list(takewhile(lambda each: each.scheduled_for < end, occurrences(plan, first - SECOND)))


def _plain(
    rule: Rule, closed: Closed, excluded: frozenset[date], begin: date
) -> dict[datetime, set[datetime]]:
    """Say which nominal times run at which instant, day by day, by the guide's own sentences."""
    found: dict[datetime, set[datetime]] = {}
    window = [begin + at * DAY for at in range(-45, 100)]
    fields = (rule.cron or "").split()
    for day in window:
        chosen = cron_day(fields[2], day)
        moved = closed.move(day)
        if not chosen or day in excluded or moved is None or moved in excluded:
            continue
        if abs(moved - day) > 31 * DAY or not begin <= moved < begin + 45 * DAY:
            continue
        for hour in map(int, fields[1].split(",")):
            at = datetime(moved.year, moved.month, moved.day, hour, tzinfo=UTC)
            found.setdefault(at, set()).add(datetime(day.year, day.month, day.day, hour))
    return found


def cron_day(days: str, day: date) -> bool:
    return {
        "*": True,
        "1,15": day.day in {1, 15},
        "*/2": day.day % 2 == 1,
        "28-31": day.day >= 28,
    }[days]


DATEUTIL_DIFFERS = [
    # rule, start, what ours says, what theirs says
    ("FREQ=YEARLY;BYWEEKNO=20", "2026-01-05", ["2026-05-11"], ["2026-05-11", "2026-05-12"]),
    ("FREQ=DAILY;UNTIL=20260106", "2026-01-05", ["2026-01-05", "2026-01-06"], ["2026-01-05"]),
    ("FREQ=WEEKLY;BYDAY=MO,WE,FR;BYSETPOS=1", "2026-01-07", ["2026-01-12"], ["2026-01-07"]),
    ("FREQ=YEARLY;BYWEEKNO=-53;BYDAY=MO", "2025-01-01", ["2025-12-29"], []),
    ("FREQ=YEARLY;BYWEEKNO=53;BYDAY=SU", "2039-01-01", ["2044-01-03"], ["2039-01-02"]),
    (
        "FREQ=MONTHLY;BYDAY=FR,1MO;UNTIL=20260301",
        "2026-01-05",
        ["2026-01-05", "2026-01-09", "2026-01-16"],
        [],
    ),
    ("FREQ=MINUTELY;BYSECOND=60", "2026-01-05", ["2026-01-05"], "second must be in 0..59"),
    ("FREQ=MINUTELY;INTERVAL=60;BYMINUTE=1", "2026-01-05", [], "generates an empty set"),
]


@pytest.mark.parametrize(("text", "begin", "ours", "theirs"), DATEUTIL_DIFFERS)
def test_where_dateutil_differs(
    text: str, begin: str, ours: list[str], theirs: list[str] | str
) -> None:
    start, size = datetime.fromisoformat(f"{begin}T09:00"), len(ours) + 1
    found = [f"{at:%Y-%m-%d}" for at in islice(rrule.matches(text, start, start), size)]
    assert found[: len(ours)] == ours
    if isinstance(theirs, str):
        with pytest.raises(ValueError, match=theirs):
            list(islice(rrulestr(text, dtstart=start), 1))
        return
    other = [f"{at:%Y-%m-%d}" for at in islice(rrulestr(text, dtstart=start), size)]
    assert other[: len(theirs)] == theirs
    assert found != other


CRONITER_DIFFERS = [
    ("0 9 * * 5-5", ["2026-01-09"], ["2026-01-05"]),
    ("0 9 */10 * MON", ["2026-05-11"], ["2026-01-05"]),
    ("0 9 * * 5/2", ["2026-01-09", "2026-01-11"], ["2026-01-09", "2026-01-16"]),
    ("0 9 * * 1/3", ["2026-01-05", "2026-01-08", "2026-01-11"], ["2026-01-05", "2026-01-08"]),
]


@pytest.mark.parametrize(("text", "ours", "theirs"), CRONITER_DIFFERS)
def test_where_croniter_differs(text: str, ours: list[str], theirs: list[str]) -> None:
    start = datetime(2026, 1, 5)
    walk, size = croniter(text, start), len(ours)
    found = [f"{at:%Y-%m-%d}" for at in islice(cron.matches(text, start), size)]
    other = [f"{walk.get_next(datetime):%Y-%m-%d}" for _ in range(size)]
    assert found == ours
    assert other[: len(theirs)] == theirs
    assert found != other


def test_where_apscheduler_differs() -> None:
    start = datetime(2026, 1, 5)
    both = CronTrigger.from_crontab("0 9 13 * fri", timezone=UTC)
    assert next(_apscheduler(both, start)) == datetime(2026, 2, 13, 9)
    assert next(cron.matches("0 9 13 * FRI", start)) == datetime(2026, 1, 9, 9)
    first = CronTrigger.from_crontab("0 9 * * 1", timezone=UTC)
    assert next(_apscheduler(first, start)) == datetime(2026, 1, 6, 9)
    assert next(cron.matches("0 9 * * 1", start)) == datetime(2026, 1, 5, 9)


def test_where_recurring_ical_events_differs() -> None:
    text, start = "FREQ=WEEKLY;BYDAY=MO;COUNT=2", datetime(2026, 1, 7, 9)
    window = (datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 3, 1, tzinfo=UTC))
    ours = _runs(text, ZoneInfo("UTC"), start, (), *window)
    theirs = _events(text, ZoneInfo("UTC"), start, (), *window)
    assert [at.day for at in ours] == [12, 19]
    assert [at.day for at in theirs] == [7, 12, 19]
