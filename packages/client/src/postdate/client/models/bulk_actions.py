"""Models of bulk actions. Written by `make docs` from the endpoints."""

from datetime import datetime
from typing import Any

from msgspec import Struct

from postdate.words.open_enum import OpenEnum


class BulkActionOperation(OpenEnum):
    """What `BulkActionOperation` may be."""

    CANCEL_JOBS = "cancel_jobs"
    PAUSE_SCHEDULE = "pause_schedule"
    REDRIVE_DEAD_LETTERS = "redrive_dead_letters"
    RESCHEDULE_JOBS = "reschedule_jobs"
    RESUME_SCHEDULE = "resume_schedule"


class BulkStatus(OpenEnum):
    """How far a bulk action has come; none of it is stored."""

    WAITING = "WAITING"
    RUNNING = "RUNNING"
    DONE = "DONE"
    STOPPED = "STOPPED"


class BulkAction(Struct, frozen=True, kw_only=True):
    """A bulk action and its progress."""

    bulk_action_id: str
    operation: BulkActionOperation
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


class BulkActionList(Struct, frozen=True, kw_only=True):
    """Bulk actions, the newest first."""

    bulk_actions: list[BulkAction]
    next_cursor: str | None


class BulkItem(Struct, frozen=True, kw_only=True):
    """One item of a bulk action."""

    item_id: str
    outcome: str | None
    new_job_id: str | None


class BulkItemList(Struct, frozen=True, kw_only=True):
    """Items of a bulk action, in the order in which they are done."""

    items: list[BulkItem]
    next_cursor: str | None
