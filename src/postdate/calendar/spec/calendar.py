"""Calendars as they are asked for and shown."""

from datetime import date
from typing import Annotated

import msgspec
from msgspec import Meta

from postdate.core.field import Changed, Name
from postdate.core.shape import Spec, View
from postdate.recurrence.calendar import Weekday
from postdate.schedule.spec.spec import MAX_HOLIDAYS

CalendarName = Annotated[Name, Meta(description="The calendar's name.", examples=["de-bank"])]
Holidays = Annotated[
    list[date],
    Meta(
        max_length=MAX_HOLIDAYS,
        description="Local dates that are closed.",
        examples=[["2031-12-25", "2031-12-26"]],
    ),
]
Weekend = Annotated[
    list[Weekday],
    Meta(max_length=7, description="Closed days of the week; 1 is Monday.", examples=[[6, 7]]),
]


class CalendarSpec(Spec, kw_only=True):
    """A calendar; one of the same name is replaced."""

    name: CalendarName
    holidays: Holidays
    weekend: Weekend = msgspec.field(default_factory=lambda: [6, 7])


class CalendarView(View, frozen=True):
    """A calendar."""

    name: CalendarName
    weekend: Weekend
    holidays: Holidays
    changed_at: Changed
