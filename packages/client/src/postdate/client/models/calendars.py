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
    """The calendars of this page."""
    next_cursor: str | None
    """Give it as `cursor` for the next page; null after the last."""
