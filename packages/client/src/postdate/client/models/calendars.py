"""Models of calendars. Written by `make docs` from the endpoints."""

from datetime import date, datetime

from msgspec import Struct


class Calendar(Struct, frozen=True, kw_only=True):
    """A calendar."""

    name: str
    """The calendar's name."""
    weekend: list[int]
    """Closed days of the week; 1 is Monday."""
    holidays: list[date]
    """Local dates that are closed."""
    changed_at: datetime
    """When it last changed."""


class CalendarList(Struct, frozen=True, kw_only=True):
    """A page of calendars."""

    calendars: list[Calendar]
    next_cursor: str | None
