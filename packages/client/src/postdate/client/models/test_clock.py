"""Models of test clock. Written by `make docs` from the endpoints."""

from datetime import datetime
from typing import Any

from msgspec import Struct


class ClockState(Struct, frozen=True, kw_only=True):
    """The clock of a tenant in test mode."""

    at: datetime
    target: datetime | None
    advance: int
    entries: int


class ClockEntry(Struct, frozen=True, kw_only=True):
    """Something that happened: `type` is the type of its event, if there is one."""

    number: int
    at: datetime
    type: str
    id: str
    outcome: dict[str, Any]


class AdvancedClock(Struct, frozen=True, kw_only=True):
    """How far the clock has come, and the first entries of what happened meanwhile."""

    at: datetime
    target: datetime
    finished: bool
    advance: int
    entries: list[ClockEntry]
    next_cursor: str | None


class ClockEntryList(Struct, frozen=True, kw_only=True):
    """A page of what happened, in order."""

    entries: list[ClockEntry]
    next_cursor: str | None
