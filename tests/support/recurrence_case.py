"""Rules drawn with a fixed seed, told in the words of each library that is asked about them."""
# ruff: noqa: DTZ001 - rules speak of the wall clock

import random
from dataclasses import dataclass, field
from datetime import datetime, timedelta

WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
ICAL_DAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
FREQS = ("YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY", "SECONDLY")
SUB_DAILY = ("FREQ=HOURLY", "FREQ=MINUTELY", "FREQ=SECONDLY")
ORDINALS = {1: "1st", 2: "2nd", 3: "3rd", 4: "4th", 5: "5th"}


def moment(draw: random.Random, first_year: int = 2023, years: int = 6) -> datetime:
    """Draw a start, near an end of a year, of February or of a day more often than chance would."""
    at = datetime(first_year, 1, 1) + timedelta(seconds=draw.randrange(years * 365 * 86_400))
    match draw.randrange(6):
        case 0:
            return at.replace(month=12, day=draw.choice([28, 29, 30, 31]))
        case 1:
            return at.replace(month=2, day=28, hour=23, minute=59)
        case 2:
            return at.replace(hour=0, minute=0, second=0)
        case _:
            return at


@dataclass
class CronCase:
    """A cron expression by its fields; what only some libraries can say is kept apart."""

    second: str
    minute: str
    hour: str
    day: str
    month: str
    weekday: str
    with_seconds: bool
    start: datetime
    special: str = field(default="")

    @property
    def text(self) -> str:
        fields = [self.minute, self.hour, self.day, self.month, self.weekday]
        return " ".join([self.second, *fields] if self.with_seconds else fields)

    @property
    def both_days(self) -> bool:
        return not self.day.startswith("*") and not self.weekday.startswith("*")


def cron_case(draw: random.Random) -> CronCase:
    with_seconds = draw.random() < 0.3
    case = CronCase(
        second=_field(draw, 0, 59) if with_seconds else "0",
        minute=_field(draw, 0, 59),
        hour=_field(draw, 0, 23),
        day="*",
        month="*" if draw.random() < 0.6 else _field(draw, 1, 12, MONTHS, first=1),
        weekday="*",
        with_seconds=with_seconds,
        start=moment(draw),
    )
    chosen = draw.random()
    if chosen < 0.35:
        case.day = _field(draw, 1, 31 if case.month == "*" else 28)
    if 0.25 < chosen < 0.65:
        case.weekday = _field(draw, 0, 6, WEEKDAYS)
    if chosen > 0.8:
        _add_special(draw, case)
    return case


def _add_special(draw: random.Random, case: CronCase) -> None:
    weekday = draw.randrange(7)
    case.special = draw.choice(["last", "last_weekday", "nth", "named_last"])
    match case.special:
        case "last":
            case.day = "L"
        case "last_weekday":
            case.weekday = f"{weekday}L"
        case "named_last":
            case.weekday = f"{WEEKDAYS[weekday]}L"
        case _:
            case.weekday = f"{draw.choice([str(weekday), WEEKDAYS[weekday]])}#{draw.randint(1, 5)}"


def _field(
    draw: random.Random, low: int, high: int, names: tuple[str, ...] = (), first: int = 0
) -> str:
    def name(value: int) -> str:
        return names[value - first] if names and draw.random() < 0.4 else str(value)

    match draw.randrange(6):
        case 0:
            return "*"
        case 1:
            return f"*/{draw.randint(1, max(2, (high - low) // 2))}"
        case 2:
            begin = draw.randint(low, high - 1)
            # croniter takes a range of one value for a star.
            return f"{name(begin)}-{name(draw.randint(begin + 1, high))}"
        case 3:
            begin = draw.randint(low, high - 1)
            return f"{begin}-{draw.randint(begin + 1, high)}/{draw.randint(1, 5)}"
        case _:
            values = draw.sample(range(low, high + 1), draw.randint(1, min(4, high - low)))
            return ",".join(name(value) for value in sorted(values))


@dataclass
class RRuleCase:
    text: str
    start: datetime

    @property
    def sub_daily(self) -> bool:
        return self.text.startswith(SUB_DAILY)


def rrule_case(draw: random.Random) -> RRuleCase:
    freq = draw.choice(FREQS)
    parts = [f"FREQ={freq}", f"INTERVAL={draw.choice([1, 1, 1, 2, 3, 4, 5, 7, 12])}"]
    by = _by_days(draw, freq) + _by_times(draw)
    # dateutil lets the first week begin with the start; RFC 5545 knows only whole weeks.
    if by and freq not in {"WEEKLY", "SECONDLY"} and draw.random() < 0.3:
        by.append(f"BYSETPOS={draw.choice(['1', '-1', '2', '1,-1', '3,-2'])}")
    if draw.random() < 0.3:
        by.append(f"WKST={draw.choice(ICAL_DAYS)}")
    if draw.random() < 0.2:
        by.append(f"COUNT={draw.randint(1, 30)}")
    return RRuleCase(";".join([*parts, *by]), moment(draw))


def _by_days(draw: random.Random, freq: str) -> list[str]:
    by = []
    # dateutil walks an empty season second by second.
    if freq not in {"MINUTELY", "SECONDLY"} and draw.random() < 0.4:
        by.append(f"BYMONTH={_some(draw, 1, 13, 5)}")
    if freq != "WEEKLY" and draw.random() < 0.3:
        days = ["-1", "1,15", "13", "28,-2", "31", "-3,30", "29", "-31", "1,2,3,4,5,6,7"]
        by.append(f"BYMONTHDAY={draw.choice(days)}")
        if draw.random() < 0.3:
            by.append(f"BYDAY={_weekdays(draw, nth=False)}")
    elif draw.random() < 0.5:
        nth = freq in {"YEARLY", "MONTHLY"} and draw.random() < 0.5
        by.append(f"BYDAY={_weekdays(draw, nth=nth)}")
    elif freq == "YEARLY" and draw.random() < 0.7:
        # Weeks 52 and 53, from either end, are compared with ISO 8601 instead.
        weeks = draw.choice(["1", "-1", "20", "2", "-3", "1,20,51", "10,11"])
        numbers = draw.choice(["1,100,-1", "366", "-366", "60", "59,-307"])
        by.append(draw.choice([f"BYYEARDAY={numbers}", f"BYWEEKNO={weeks};BYDAY=MO,SU"]))
    return by


def _by_times(draw: random.Random) -> list[str]:
    by = []
    if draw.random() < 0.3:
        by.append(f"BYHOUR={_some(draw, 0, 24)}")
    if draw.random() < 0.3:
        by.append(f"BYMINUTE={_some(draw, 0, 60)}")
    if draw.random() < 0.2:
        by.append(f"BYSECOND={_some(draw, 0, 60)}")
    return by


def _some(draw: random.Random, low: int, high: int, most: int = 3) -> str:
    return ",".join(str(n) for n in sorted(draw.sample(range(low, high), draw.randint(1, most))))


def _weekdays(draw: random.Random, *, nth: bool) -> str:
    chosen = draw.sample(ICAL_DAYS, draw.randint(1, 3))
    numbers = ["1", "2", "-1", "3", "5", "-5", "-2"]
    return ",".join((draw.choice(numbers) if nth else "") + day for day in chosen)
