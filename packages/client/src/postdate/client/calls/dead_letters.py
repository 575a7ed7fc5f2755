"""Calls about dead letters. Written by `make docs` from the endpoints."""

# mypy: disable-error-code="empty-body"

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Literal
from uuid import UUID

from msgspec import UNSET, UnsetType

from postdate.client.call import Group, K, call, pages
from postdate.client.models.dead_letters import (
    DeadLetter,
    DeadLetterFilterParams,
    DeadLetterList,
    PurgeOutcome,
    RedriveOutcome,
)
from postdate.client.models.shared import Job, Payment


class DeadLetters(Group[K]):
    """What the API offers about dead letters."""

    @call("list_dead_letters", "GET", "/dead-letters")
    def list_page(
        self,
        *,
        limit: int | UnsetType = UNSET,
        cursor: str | None = None,
        type: Literal["job", "payment"] | UnsetType = UNSET,
        lane: str | None = None,
        schedule_id: UUID | str | None = None,
        due_after: datetime | None = None,
        due_before: datetime | None = None,
        code: str | None = None,
        unique: str | None = None,
        destination: str | None = None,
    ) -> DeadLetterList:
        """List failed jobs, or payments that wait for a person.

        Jobs that have failed permanently; `type=payment` lists payments whose settlement failed.
        `limit`: Maximum number of items to return.
        `cursor`: `next_cursor` of the previous page.
        `type`: Failed jobs, or payments that were given up.
        `lane`: The queue of jobs it belongs to: the unit of fairness, limits and pausing.
        `schedule_id`: The schedule's id.
        `due_after`: Only what is due at this instant or later.
        `due_before`: Only what is due before this instant.
        `code`: A stable word for the reason.
        `unique`: At most one waiting job holds this key.
        `destination`: Where the work goes: a webhook, a queue, or the workers of the lane.
        """

    @pages(list_page, "jobs", "payments")
    def list(
        self,
        *,
        type: Literal["job", "payment"] | UnsetType = UNSET,
        lane: str | None = None,
        schedule_id: UUID | str | None = None,
        due_after: datetime | None = None,
        due_before: datetime | None = None,
        code: str | None = None,
        unique: str | None = None,
        destination: str | None = None,
        page_size: int = 100,
    ) -> Iterator[Job | Payment]:
        """List failed jobs, or payments that wait for a person, page by page until the end.

        Jobs that have failed permanently; `type=payment` lists payments whose settlement failed.
        `type`: Failed jobs, or payments that were given up.
        `lane`: The queue of jobs it belongs to: the unit of fairness, limits and pausing.
        `schedule_id`: The schedule's id.
        `due_after`: Only what is due at this instant or later.
        `due_before`: Only what is due before this instant.
        `code`: A stable word for the reason.
        `unique`: At most one waiting job holds this key.
        `destination`: Where the work goes: a webhook, a queue, or the workers of the lane.
        """

    @call("show_dead_letter", "GET", "/dead-letters/{job_id}")
    def get(self, job_id: UUID | str) -> DeadLetter:
        """Show a failed job.

        With every attempt, so that the cause can be seen before it is repeated.
        `job_id`: The job's id.
        """

    @call("redrive_dead_letters", "POST", "/dead-letters/redrive", repeatable=False)
    def redrive(
        self,
        *,
        job_ids: Sequence[UUID | str] | None = None,
        filter: DeadLetterFilterParams | None = None,
        reason: str | None = None,
        dry_run: bool | UnsetType = UNSET,
        cursor: str | None = None,
        per_second: float | None = None,
    ) -> RedriveOutcome:
        """Redrive failed jobs, as new jobs.

        Each new job names the failed one; `dry_run` only counts them.
        `job_ids`: These failed jobs.
        `filter`: Which ones are meant.
        `reason`: Reason, recorded in the event and in the audit log.
        `dry_run`: True changes nothing and answers what would happen.
        `cursor`: Where the last page ended: its `next_cursor`.
        `per_second`: The most that are made due in a second; all at once if absent.
        """

    @call("purge_dead_letters", "POST", "/dead-letters/purge", repeatable=False)
    def purge_many(
        self,
        *,
        job_ids: Sequence[UUID | str] | None = None,
        filter: DeadLetterFilterParams | None = None,
        reason: str | None = None,
        dry_run: bool | UnsetType = UNSET,
        cursor: str | None = None,
    ) -> PurgeOutcome:
        """Remove failed jobs for good.

        It cannot be undone; `dry_run` only counts them.
        `job_ids`: These jobs.
        `filter`: Which ones are meant.
        `reason`: Reason, recorded in the event and in the audit log.
        `dry_run`: True changes nothing and answers what would happen.
        `cursor`: Where the last page ended: its `next_cursor`.
        """

    @call("purge_dead_letter", "DELETE", "/dead-letters/{job_id}")
    def purge(self, job_id: UUID | str) -> None:
        """Remove a failed job for good.

        It cannot be undone; the job's events stay.
        `job_id`: The job's id.
        """
