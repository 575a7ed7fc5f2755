"""What a bulk action does, to what, and how far it has come."""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, Literal
from uuid import UUID

import msgspec

from postdate.core.identity import Scope

BulkOperation = Literal[
    "cancel_jobs",
    "reschedule_jobs",
    "redrive_dead_letters",
    "pause_schedule",
    "resume_schedule",
]
"""The operation of the API that is done to each item."""

DONE: Final = "done"
"""The outcome of an item that was changed; every other outcome says why it was left as it is."""


class BulkStatus(StrEnum):
    """How far a bulk action has come; none of it is stored."""

    WAITING = "WAITING"
    RUNNING = "RUNNING"
    DONE = "DONE"
    STOPPED = "STOPPED"


class BulkWords(msgspec.Struct, frozen=True):
    """What one kind of bulk action is called, and who may see it and begin it."""

    title: str
    verb: str
    noun: Literal["job", "schedule"]

    @property
    def read(self) -> Scope:
        """Return the scope of who may see it."""
        return Scope.JOBS_READ if self.noun == "job" else Scope.SCHEDULES_READ

    @property
    def write(self) -> Scope:
        """Return the scope of who may begin and stop it."""
        return Scope.JOBS_WRITE if self.noun == "job" else Scope.SCHEDULES_WRITE


WORDS: Final[Mapping[BulkOperation, BulkWords]] = {
    "cancel_jobs": BulkWords("Cancelling jobs", "cancelled", "job"),
    "reschedule_jobs": BulkWords("Rescheduling jobs", "rescheduled", "job"),
    "redrive_dead_letters": BulkWords("Redriving failed jobs", "redriven as new jobs", "job"),
    "pause_schedule": BulkWords("Pausing schedules", "paused", "schedule"),
    "resume_schedule": BulkWords("Resuming schedules", "resumed", "schedule"),
}


class BulkItemView(msgspec.Struct, frozen=True, kw_only=True):
    """One item of a bulk action."""

    item_id: UUID
    """The job or schedule."""
    outcome: str | None
    """`done`, or why it was left as it is; null until its turn has come."""
    new_job_id: UUID | None
    """The job that a redrive has made."""


class BulkActionView(msgspec.Struct, frozen=True, kw_only=True):
    """A bulk action and its progress.

    `position` items of `total` have had their turn: `done` of them were changed, and `skipped`
    counts the others by the reason. `waiting_for` says why it does not go on at the moment, or why
    it was stopped. It begins at `starts_at`; until then it can be stopped without a trace.
    """

    bulk_action_id: UUID
    operation: BulkOperation
    status: BulkStatus
    terms: dict[str, Any]
    total: int
    position: int
    done: int
    skipped: dict[str, int]
    per_second: float | None
    waiting_for: str | None
    created_by: str
    created_at: datetime
    starts_at: datetime
    changed_at: datetime
    ended_at: datetime | None
    stopped_by: str | None

    @property
    def words(self) -> BulkWords:
        """Return what it is called."""
        return WORDS[self.operation]
