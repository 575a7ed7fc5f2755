"""Operations of events. Written by `make docs` from the endpoints."""

from typing import Final

from postdate.client.models.events import EventList
from postdate.client.operation import Operation

LIST_EVENTS: Final = Operation("list_events", "GET", "/events", EventList)
