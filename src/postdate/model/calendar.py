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


def receives(calendar: Calendar, day: date, roll: Roll) -> bool:
    """Say whether occurrences of other days may roll onto this day."""
    after = roll in {Roll.FOLLOWING, Roll.MODIFIED_FOLLOWING}
    before = roll in {Roll.PRECEDING, Roll.MODIFIED_FOLLOWING}
    return (after and not calendar.is_open(day - _DAY)) or (
        before and not calendar.is_open(day + _DAY)
    )


def reach_back(calendar: Calendar, day: date) -> date:
    """Give the first day whose occurrences may roll onto this day or a later one."""
    for _ in range(ROLL_DAYS_MOST):
        if calendar.is_open(day - _DAY):
            return day
        day -= _DAY
    return day
