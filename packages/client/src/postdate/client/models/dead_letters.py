"""Models of dead letters. Written by `make docs` from the endpoints."""

from datetime import datetime
from typing import TypedDict
from uuid import UUID

from msgspec import Struct, field

from postdate.client.models.shared import Attempt, Job, Payment


class DeadLetterList(Struct, frozen=True, kw_only=True):
    """A page of dead letters, the newest first; payments only when asked for."""

    jobs: list[Job] = field(default_factory=list)
    payments: list[Payment] = field(default_factory=list)
    next_cursor: str | None


class DeadLetter(Struct, frozen=True, kw_only=True):
    """A failed job and every attempt at it."""

    job: Job
    attempts: list[Attempt]


class DeadLetterFilterParams(TypedDict, total=False):
    """Which failed jobs; the instants are those of their last attempt.

    `lane`: Only jobs of this lane.
    `schedule_id`: Only what this schedule has created.
    `due_after`: Only what is due at this instant or later.
    `due_before`: Only what is due before this instant.
    `code`: Only what failed for this reason.
    `unique`: Only jobs under this unique key.
    `destination`: Only jobs for the destination of this name.
    """

    lane: str | None
    schedule_id: UUID | str | None
    due_after: datetime | None
    due_before: datetime | None
    code: str | None
    unique: str | None
    destination: str | None


class Redriven(Struct, frozen=True, kw_only=True):
    """The result for one dead letter: the new job, or why there is none."""

    origin_id: str
    job_id: str | None = None
    code: str | None = None


class RedriveOutcome(Struct, frozen=True, kw_only=True):
    """One entry for each dead letter; with a filter, `next_cursor` goes on."""

    redriven: int
    outcomes: list[Redriven]
    next_cursor: str | None


class PurgeOutcome(Struct, frozen=True, kw_only=True):
    """How many were removed, or in a dry run would be; with a filter, `next_cursor` goes on."""

    purged: int
    next_cursor: str | None
