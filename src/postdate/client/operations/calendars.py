"""Operations of calendars. Written by `make docs` from the endpoints."""

from types import NoneType
from typing import Final

from postdate.client.models.calendars import Calendar, CalendarList
from postdate.client.operation import Operation

PUT_CALENDAR: Final = Operation("put_calendar", "POST", "/calendars", Calendar, keyed=True)
LIST_CALENDARS: Final = Operation("list_calendars", "GET", "/calendars", CalendarList)
SHOW_CALENDAR: Final = Operation("show_calendar", "GET", "/calendars/{name}", Calendar)
DELETE_CALENDAR: Final = Operation("delete_calendar", "DELETE", "/calendars/{name}", NoneType)
