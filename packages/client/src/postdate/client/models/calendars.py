"""Models of calendars. Written by `make docs` from the endpoints."""

from datetime import date, datetime

from msgspec import Struct


class Calendar(Struct, frozen=True, kw_only=True):
    """A calendar."""

    name: str
    weekend: list[int]
    holidays: list[date]
    changed_at: datetime


class CalendarList(Struct, frozen=True, kw_only=True):
    """A page of calendars, by name."""

    calendars: list[Calendar]
    next_cursor: str | None
