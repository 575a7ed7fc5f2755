"""Business calendars: the days on which schedules that follow them do not run."""

from typing import Final

from postdate.calendar.change import Calendars
from postdate.calendar.view import CalendarViews
from postdate.resource.endpoints import Served, serve

ROUTES: Final = serve(
    "calendars",
    Served(CalendarViews, lambda services: services.calendar.read),
    Served(Calendars, lambda services: services.calendar.change),
)
