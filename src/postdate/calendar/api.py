"""Business calendars: the days on which schedules that follow them do not run."""

from typing import Final

from postdate.calendar.change import Calendars
from postdate.calendar.view import CalendarViews
from postdate.resource.endpoints import ServedClass, serve

ROUTES: Final = serve(
    "calendars",
    ServedClass(CalendarViews, lambda services: services.calendar.read),
    ServedClass(Calendars, lambda services: services.calendar.change),
)
