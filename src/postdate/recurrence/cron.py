"""Cron expressions on a wall clock: five fields, six with seconds, and the names with an @."""

import re
from collections.abc import Iterator
from datetime import datetime
from functools import lru_cache, partial
from typing import Final, NamedTuple

from cronsim import CronSim, CronSimError

from postdate.recurrence import year as years
from postdate.recurrence.days import Days
from postdate.recurrence.product import HOURS, SIXTY, clock
from postdate.recurrence.walk import DayWalk
from postdate.recurrence.year import Year
from postdate.words.error import Code, RefusedError, refuse

NICKNAMES: Final = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
MAX_CHARACTERS: Final = 200
_FIELDS: Final = 5
_MAX_STEPS: Final = (60, 60, 24, 31, 12, 7)
_ALL_MONTH_DAYS: Final = frozenset(range(1, 32))
_ALL_WEEKDAYS: Final = frozenset(range(7))
_WEEKDAYS: Final = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_MONTHS: Final = (
    "JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC",
)  # fmt: skip
_STEP: Final = re.compile(r"/([0-9]+)")
_RANGE: Final = re.compile(r"([A-Z]{3}|[0-9]{1,2})-([A-Z]{3}|[0-9]{1,2})(?:/([0-9]{1,2}))?")
_LAST_NAMED: Final = re.compile(r"\b(SUN|MON|TUE|WED|THU|FRI|SAT)L\b")


def _plain(values: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    numbers = {text: (value,) for value in values for text in (f"{value}", f"{value:02}")}
    return {**numbers, "*": values}


_PLAIN_MINUTES: Final = _plain(SIXTY)
_PLAIN_HOURS: Final = _plain(HOURS)


class _Cron(NamedTuple):
    expression: str
    walk: DayWalk
    every_hour: bool


@lru_cache(maxsize=4096)
def _compiled(text: str) -> _Cron:
    if len(text) > MAX_CHARACTERS:
        raise refuse(Code.INVALID_FIELD, f"More than {MAX_CHARACTERS} characters.", "cron")
    if not text.isascii():
        raise _wrong(text, "only ASCII letters and digits make an expression")
    fields = NICKNAMES.get(text.strip().lower(), text).upper().split()
    _check_steps(text, fields)
    if "-" in text and len(fields) >= _FIELDS:
        fields = _unwrap_ranges(text, fields)
    try:
        # FRIL is 5L: the parser knows only the number.
        expression = _LAST_NAMED.sub(lambda day: f"{_WEEKDAYS.index(day[1])}L", " ".join(fields))
        times = _plain_times(expression) or _times(expression)
        days = _shared_days(tuple(expression.split()[-3:]))
    except (CronSimError, AssertionError, ValueError, TypeError) as error:
        raise _wrong(text, str(error) or "a field is wrong") from error
    every_hour = expression.split()[-4].startswith("*")
    return _Cron(expression, DayWalk(days, clock(*times)), every_hour)


_Times = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
"""Hours, minutes and seconds."""


def _parsed(expression: str) -> CronSim:
    return CronSim(expression, datetime(2000, 1, 1))  # noqa: DTZ001 - a wall clock


def _times(expression: str) -> _Times:
    parsed = _parsed(expression)
    hours, minutes, seconds = (parsed.hours, parsed.minutes, parsed.seconds)
    return tuple(sorted(hours)), tuple(sorted(minutes)), tuple(sorted(seconds))


def _plain_times(expression: str) -> _Times | None:
    """Read an hour and a minute that are stars or numbers, as most are: the parser takes longer."""
    fields = expression.split()
    if len(fields) != _FIELDS:
        return None
    minutes, hours = _PLAIN_MINUTES.get(fields[0]), _PLAIN_HOURS.get(fields[1])
    return None if minutes is None or hours is None else (hours, minutes, (0,))


@lru_cache(maxsize=1024)
def _shared_days(fields: tuple[str, ...]) -> Days:
    """Return the days of all expressions whose day, month and weekday are written alike."""
    return Days(partial(_chosen, _parsed(" ".join(("0", "0", *fields)))))


def _check_steps(text: str, fields: list[str]) -> None:
    if "/" not in text:
        return
    for field, most in zip(reversed(fields), reversed(_MAX_STEPS), strict=False):
        if any(len(step) > 2 or int(step) > most for step in _STEP.findall(field)):  # noqa: PLR2004
            raise _wrong(text, f"a step in {field[:20]!r} is greater than {most}")


class _Circle(NamedTuple):
    """A field whose ranges may go past its end: its lowest and highest number, and its names."""

    lowest: int
    highest: int
    names: tuple[str, ...]

    def number(self, text: str) -> int | None:
        """Return the value that a name or a number stands for; None if it is neither."""
        if text in self.names:
            return self.names.index(text) + self.lowest
        known = text.isdigit() and self.lowest <= int(text) <= self.highest
        return int(text) if known else None

    def listed(self, start: int, end: int, step: int) -> str:
        """List the values from `start` past the end of the field to `end`."""
        size = len(self.names)
        steps = range(start - self.lowest, start - self.lowest + (end - start) % size + 1, step)
        return ",".join(str(each % size + self.lowest) for each in steps)


_WEEK: Final = _Circle(0, 7, _WEEKDAYS)
_YEAR: Final = _Circle(1, 12, _MONTHS)


def _unwrap_ranges(text: str, fields: list[str]) -> list[str]:
    """Write ranges such as FRI-MON and NOV-FEB as lists: the parser's ranges do not wrap."""
    *times, months, weekdays = fields
    for field in times:
        for start, end, _ in _RANGE.findall(field):
            if start.isdigit() and end.isdigit() and int(start) > int(end):
                raise _wrong(text, f"{start}-{end} ends before it begins; write two ranges")
    return [*times, _unwrapped(months, _YEAR), _unwrapped(weekdays, _WEEK)]


def _unwrapped(field: str, circle: _Circle) -> str:
    return ",".join(_unwrapped_part(part, circle) for part in field.split(","))


def _unwrapped_part(part: str, circle: _Circle) -> str:
    found = _RANGE.fullmatch(part)
    if found is None:
        return part
    start, end, step = circle.number(found[1]), circle.number(found[2]), int(found[3] or 1)
    if start is None or end is None or start <= end or not step:
        return part
    return circle.listed(start, end, step)


def _wrong(text: str, why: str) -> RefusedError:
    return refuse(Code.INVALID_FIELD, f"{text!r} is not a cron expression: {why}.", "cron")


def validate(text: str) -> None:
    """Refuse what is not a cron expression, saying which part is wrong."""
    _compiled(text)


def every_hour(text: str) -> bool:
    """Return whether the expression does not fix the hour, so that it means an interval."""
    return _compiled(text).every_hour


def matches(text: str, start: datetime) -> Iterator[datetime]:
    """Return the wall-clock times from `start` on."""
    return _compiled(text).walk.times(start)


def days(text: str) -> Days | None:
    """Return the days among which all times lie; None for any day."""
    return _compiled(text).walk.days


def walk(text: str) -> DayWalk:
    """Return the walk along the wall clock that an expression means."""
    return _compiled(text).walk


def explain(text: str) -> str:
    """Describe an expression in words."""
    return str(_parsed(_compiled(text).expression).explain())


def _chosen(parsed: CronSim, year: Year) -> int:
    """Choose the days of a year: by both day fields if one of them is a star, else by either."""
    month_days, weekdays = _on_month_days(parsed, year), _on_weekdays(parsed, year)
    days = month_days & weekdays if parsed.day_and else month_days | weekdays
    return days & years.in_months(year, parsed.months)


def _on_month_days(parsed: CronSim, year: Year) -> int:
    if parsed.days >= _ALL_MONTH_DAYS:
        return years.all_days(year)
    # The parser has numbers of its own for L and LW, which are no days.
    mask = years.on_month_days(year, (day for day in parsed.days if day > 0))
    if CronSim.LAST in parsed.days:
        mask |= years.on_month_days(year, (-1,))
    if CronSim.LAST_WEEKDAY in parsed.days:
        for month in years.months(year.leap):
            mask |= years.last_workday(year, month)
    return mask


def _on_weekdays(parsed: CronSim, year: Year) -> int:
    if parsed.weekdays >= _ALL_WEEKDAYS:
        return years.all_days(year)
    mask = 0
    for each in parsed.weekdays:
        number, nth = each if isinstance(each, tuple) else (each, 0)
        weekday = (number - 1) % 7
        if not nth:
            mask |= years.on_weekday(year, weekday)
            continue
        for month in years.months(year.leap):
            place = -1 if nth == CronSim.LAST else nth
            mask |= years.on_nth_weekday(year, place, weekday, month)
    return mask
