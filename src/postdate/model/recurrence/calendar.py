"""Business calendars: which days are open, and where an occurrence on a closed day goes."""

from datetime import date, timedelta
from enum import StrEnum
from typing import Annotated, Final

import msgspec

ROLL_DAYS_MOST: Final = 31
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
        """Say whether business is done on this day."""
        return day.isoweekday() not in self.weekend and day not in self.holidays


def rolled(calendar: Calendar, day: date, roll: Roll) -> date | None:
    """Give the day an occurrence moves to; None when it has nowhere to go."""
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
    for _ in range(ROLL_DAYS_MOST):
        day += step
        if calendar.is_open(day):
            return day
    return None


def earliest(calendar: Calendar, day: date, roll: Roll) -> date:
    """Give the first day onto which an occurrence of this day or of a later one may roll."""
    if roll is Roll.FOLLOWING or calendar.is_open(day):
        return day
    return _walk(calendar, day, -_DAY) or day


def reopening(calendar: Calendar | None, excluded: frozenset[date], day: date, end: date) -> date:
    """Give the first day after this one that is open and not excluded; `end` if there is none."""
    day += _DAY
    while day < end and (day in excluded or not (calendar is None or calendar.is_open(day))):
        day += _DAY
    return day


def reach_back(calendar: Calendar, day: date) -> date:
    """Give the first day whose occurrences may roll onto this day or a later one."""
    for _ in range(ROLL_DAYS_MOST):
        if calendar.is_open(day - _DAY):
            return day
        day -= _DAY
    return day
