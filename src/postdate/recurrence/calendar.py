"""Business calendars: which days are open, and where an occurrence on a closed day goes."""

from collections.abc import Mapping
from datetime import date, timedelta
from enum import StrEnum
from functools import lru_cache, partial
from typing import Annotated, Final

import msgspec

from postdate.recurrence import year as years
from postdate.recurrence.days import Days
from postdate.recurrence.year import Year

MAX_ROLL_DAYS: Final = 31
"""An occurrence never rolls further than this; it is skipped instead."""

_DAY: Final = timedelta(days=1)


class Roll(StrEnum):
    """What happens to an occurrence on a closed day: skipped, or moved to an open one."""

    NONE = "none"
    FOLLOWING = "following"
    MODIFIED_FOLLOWING = "modified_following"
    PRECEDING = "preceding"


Weekday = Annotated[int, msgspec.Meta(ge=1, le=7)]


class Calendar(msgspec.Struct, frozen=True):
    """The closed days of a place: its weekend (1 is Monday) and its holidays."""

    name: str
    holidays: frozenset[date]
    weekend: frozenset[Weekday] = frozenset({6, 7})

    def is_open(self, day: date) -> bool:
        """Return whether business is done on this day."""
        return day.isoweekday() not in self.weekend and day not in self.holidays


def roll_day(calendar: Calendar, day: date, roll: Roll) -> date | None:
    """Return the day an occurrence moves to; None when it has nowhere to go."""
    if calendar.is_open(day):
        return day
    match roll:
        case Roll.NONE:
            return None
        case Roll.FOLLOWING:
            return _walk(calendar, day, _DAY)
        case Roll.PRECEDING:
            return _walk(calendar, day, -_DAY)
        case Roll.MODIFIED_FOLLOWING:
            later = _walk(calendar, day, _DAY)
            if later is None or later.month == day.month:
                return later
            return _walk(calendar, day, -_DAY)


def _walk(calendar: Calendar, day: date, step: timedelta) -> date | None:
    for _ in range(MAX_ROLL_DAYS):
        day += step
        if calendar.is_open(day):
            return day
    return None


def earliest(calendar: Calendar, day: date, roll: Roll) -> date:
    """Return the first day onto which an occurrence of this day or of a later one may roll."""
    if roll is Roll.FOLLOWING or calendar.is_open(day):
        return day
    return _walk(calendar, day, -_DAY) or day


@lru_cache(maxsize=256)
def open_days(calendar: Calendar | None, excluded: frozenset[date]) -> Days:
    """Return the days that are open and not excluded, as bits of whole years."""
    closed: dict[int, int] = {}
    for day in excluded | (frozenset() if calendar is None else calendar.holidays):
        place = day.toordinal() - date(day.year, 1, 1).toordinal()
        closed[day.year] = closed.get(day.year, 0) | 1 << place
    return OpenDays(frozenset() if calendar is None else calendar.weekend, closed)


class OpenDays(Days):
    """Days that are no weekend, without some single ones: years of one kind differ in these."""

    def __init__(self, weekend: frozenset[int], closed: Mapping[int, int]) -> None:
        super().__init__(partial(_no_weekend, weekend))
        self._closed = closed

    def of_year(self, year: int) -> int:
        """Return the bits of a year."""
        return super().of_year(year) & ~self._closed.get(year, 0)


def _no_weekend(weekend: frozenset[int], year: Year) -> int:
    return sum(years.on_weekday(year, day) for day in range(7) if day + 1 not in weekend)


def reach_back(calendar: Calendar, day: date) -> date:
    """Return the first day whose occurrences may roll onto this day or a later one."""
    for _ in range(MAX_ROLL_DAYS):
        if calendar.is_open(day - _DAY):
            return day
        day -= _DAY
    return day
