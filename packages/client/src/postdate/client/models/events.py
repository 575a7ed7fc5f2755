"""Models of events. Written by `make docs` from the endpoints."""

from datetime import datetime
from typing import Any

from msgspec import Struct


class Event(Struct, frozen=True, kw_only=True):
    """One event in the envelope of CloudEvents 1.0; `sequence` counts the tenant's events."""

    specversion: str
    id: str
    source: str
    type: str
    subject: str
    time: datetime
    datacontenttype: str
    sequence: str
    data: Any
    actor: str | None = None


class EventList(Struct, frozen=True, kw_only=True):
    """Events in order, and where to go on: also when there are none yet."""

    events: list[Event]
    next_cursor: str
