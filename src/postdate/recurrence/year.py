"""A year as a row of bits, bit 0 being 1 January: days are chosen by shifts, never one by one."""

from calendar import isleap
from collections.abc import Iterable
from datetime import date
from functools import cache, lru_cache
from itertools import accumulate
from typing import Final, NamedTuple

_MONTH_DAYS: Final = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_FEBRUARY: Final = 1
_EVERY_SEVENTH: Final = sum(1 << day for day in range(0, 371, 7))
_WEEK: Final = 0b1111111
_LAST_OF_FIRST_WEEK: Final = 3
"""Week 1 has at least four days in its year: it begins at most three days before 1 January."""


class Year(NamedTuple):
    """All that the days of a year depend on; there are 28 kinds of years."""

    first_weekday: int
    leap: bool
    after_leap: bool
    before_leap: bool

    @property
    def days(self) -> int:
        """Return the length of the year."""
        return 365 + self.leap


class Month(NamedTuple):
    """Where a month begins within its year, counted from 0, and its length."""

    first: int
    days: int


@lru_cache(maxsize=1024)
def kind(year: int) -> Year:
    """Return what kind of year this is."""
    weekday = date(year, 1, 1).weekday()
    return Year(weekday, isleap(year), isleap(year - 1), isleap(year + 1))


@cache
def months(leap: bool) -> tuple[Month, ...]:  # noqa: FBT001 - the two kinds of years
    """Return the twelve months of a year."""
    lengths = [days + (leap and at == _FEBRUARY) for at, days in enumerate(_MONTH_DAYS)]
    return tuple(map(Month, accumulate(lengths[:-1], initial=0), lengths))


def all_days(year: Year) -> int:
    """Choose every day."""
    return (1 << year.days) - 1


def in_months(year: Year, wanted: Iterable[int]) -> int:
    """Choose the days of some months (1 is January)."""
    chosen = (months(year.leap)[number - 1] for number in wanted)
    return sum((1 << month.days) - 1 << month.first for month in set(chosen))


def on_month_days(year: Year, wanted: Iterable[int]) -> int:
    """Choose days of every month, counted from 1 or, from its end, from -1."""
    mask = 0
    for number in wanted:
        for month in months(year.leap):
            day = number - 1 if number > 0 else month.days + number
            if 0 <= day < month.days:
                mask |= 1 << month.first + day
    return mask


def on_year_days(year: Year, wanted: Iterable[int]) -> int:
    """Choose days of the year, counted from 1 or, from its end, from -1."""
    days = (number - 1 if number > 0 else year.days + number for number in wanted)
    return sum(1 << day for day in {day for day in days if 0 <= day < year.days})


def on_weekday(year: Year, weekday: int) -> int:
    """Choose one day of every week (0 is Monday)."""
    return _EVERY_SEVENTH << (weekday - year.first_weekday) % 7 & all_days(year)


def on_nth_weekday(year: Year, nth: int, weekday: int, within: Month) -> int:
    """Choose the n-th such weekday of a stretch of days, counted from its end when negative."""
    mask = on_weekday(year, weekday) >> within.first & (1 << within.days) - 1
    days = [day for day in range(within.days) if mask >> day & 1]
    place = nth - 1 if nth > 0 else len(days) + nth
    return 1 << within.first + days[place] if 0 <= place < len(days) else 0


def last_workday(year: Year, month: Month) -> int:
    """Choose the last day from Monday to Friday of a month."""
    last = month.first + month.days - 1
    return 1 << last - max(0, (year.first_weekday + last) % 7 - 4)


def in_weeks(year: Year, wanted: Iterable[int], week_start: int) -> int:
    """Choose the days of numbered weeks, also of the neighbours' weeks that reach into this year.

    Week 1 is the first with four days or more in the year; -1 is the last one.
    """
    wanted = frozenset(wanted)
    leaps = (year.after_leap, year.leap, year.before_leap)
    begin, weekday, mask = -365 - year.after_leap, (year.first_weekday - 1 - year.after_leap) % 7, 0
    for leap in leaps:
        first = begin + _first_week(weekday, week_start)
        begin, weekday = begin + 365 + leap, (weekday + 365 + leap) % 7
        weeks = (begin + _first_week(weekday, week_start) - first) // 7
        for number in range(1, weeks + 1):
            if number in wanted or number - weeks - 1 in wanted:
                day = first + 7 * (number - 1)
                mask |= _WEEK << day if day >= 0 else _WEEK >> -day
    return mask & all_days(year)


def _first_week(weekday: int, week_start: int) -> int:
    """Return how far from 1 January, a given weekday, week 1 begins."""
    into = (weekday - week_start) % 7
    return -into if into <= _LAST_OF_FIRST_WEEK else 7 - into
