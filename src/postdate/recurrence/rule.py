"""A recurring rule, and what one occurrence of it is."""

from datetime import UTC, date, datetime
from enum import StrEnum
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from postdate.recurrence.calendar import Roll

MAX_EXCLUDED_DATES: Final = 1000


SECONDS_A_DAY: Final = 86_400


EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Gap(StrEnum):
    """What happens to a local time that the clock jumps over."""

    SKIP = "skip"
    SHIFT_FORWARD = "shift_forward"
    SHIFT_BACK = "shift_back"


class Repeated(StrEnum):
    """Which of its two instants a local time means that the clock shows twice."""

    FIRST = "first"
    SECOND = "second"
    BOTH = "both"


class Status(StrEnum):
    """The label of an occurrence in the book."""

    FIRED = "FIRED"
    LATE = "LATE"
    BUFFERED = "BUFFERED"
    SKIPPED_BY_OVERLAP = "SKIPPED_BY_OVERLAP"
    SKIPPED_BY_PAUSE = "SKIPPED_BY_PAUSE"
    SKIPPED_BY_CALENDAR = "SKIPPED_BY_CALENDAR"
    SKIPPED_BY_DST = "SKIPPED_BY_DST"
    SKIPPED_BY_UNIQUE = "SKIPPED_BY_UNIQUE"
    MISSED = "MISSED"
    REFUSED = "REFUSED"


RAN: Final = frozenset({Status.FIRED, Status.LATE})
"""Labels of occurrences that became a job or payment; they never change again."""


class Dst(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What happens where local time is missing or repeated."""

    gap: Gap | None = None
    repeated: Repeated | None = None


class Rule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When: one of cron, every_seconds and rrule, in a zone, between two instants."""

    cron: str | None = None
    every_seconds: Annotated[int, Meta(ge=1, le=3660 * SECONDS_A_DAY)] | None = None
    rrule: str | None = None
    timezone: str = "UTC"
    start_at: datetime | None = None
    end_at: datetime | None = None
    max_runs: Annotated[int, Meta(ge=1, le=2**31 - 1)] | None = None
    exclude_dates: Annotated[tuple[date, ...], Meta(max_length=MAX_EXCLUDED_DATES)] = ()
    calendar: str | None = None
    roll: Roll = Roll.NONE


class Occurrence(msgspec.Struct, frozen=True, order=True):
    """One nominal occurrence: the instant it is scheduled for and how it came to be there.

    `nominal_local` is what the rule says on the wall clock, before the calendar and the policies
    for missing and repeated time. `skip` says that those left it out.
    """

    scheduled_for: datetime
    nominal_local: datetime
    notes: tuple[str, ...] = ()
    skip: Status | None = None
    merged: tuple[datetime, ...] = ()
