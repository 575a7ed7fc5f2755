"""Calls about dead letters. Written by `make docs` from the endpoints."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Literal
from uuid import UUID

from msgspec import UNSET, UnsetType

from postdate.client.group import Group
from postdate.client.models.dead_letters import (
    DeadLetter,
    DeadLetterFilterParams,
    DeadLetterList,
    PurgeOutcome,
    RedriveOutcome,
)
from postdate.client.models.shared import Job, Payment
from postdate.client.operations import dead_letters as operations


class DeadLetters(Group):
    """What the API offers about dead letters."""

    def list(
        self,
        *,
        type: Literal["job", "payment"] | UnsetType = UNSET,
        lane: str | None = None,
        schedule_id: UUID | str | None = None,
        due_after: datetime | None = None,
        due_before: datetime | None = None,
        page_size: int = 100,
    ) -> Iterator[Job | Payment]:
        """List failed jobs, or payments that wait for a person, page by page until the end.

        What has used up its attempts. `type=payment` lists payments whose settling broke.
        `limit`: How many items to return at most.
        `cursor`: `next_cursor` of the page before.
        """
        return self._pages(
            operations.LIST_DEAD_LETTERS,
            _list_dead_letters_items,
            query={
                "type": type,
                "lane": lane,
                "schedule_id": schedule_id,
                "due_after": due_after,
                "due_before": due_before,
                "limit": page_size,
            },
        )

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
    ) -> DeadLetterList:
        """List failed jobs, or payments that wait for a person.

        What has used up its attempts. `type=payment` lists payments whose settling broke.
        `limit`: How many items to return at most.
        `cursor`: `next_cursor` of the page before.
        """
        return self._send(
            operations.LIST_DEAD_LETTERS,
            query={
                "limit": limit,
                "cursor": cursor,
                "type": type,
                "lane": lane,
                "schedule_id": schedule_id,
                "due_after": due_after,
                "due_before": due_before,
            },
        )

    def get(self, job_id: UUID | str) -> DeadLetter:
        """Show a failed job with its attempts.

        With every attempt, so that the cause can be seen before it is repeated.
        """
        return self._send(operations.SHOW_DEAD_LETTER, path={"job_id": job_id})

    def redrive(
        self,
        *,
        job_ids: Sequence[UUID | str] | None = None,
        filter: DeadLetterFilterParams | None = None,
        per_second: float | None = None,
        reason: str | None = None,
        dry_run: bool | UnsetType = UNSET,
        cursor: str | None = None,
    ) -> RedriveOutcome:
        """Send failed jobs on their way again, as new jobs.

        Each is a new job that names the old one; `dry_run` only counts them.
        `reason`: Why: it stands in the event and the audit.
        """
        return self._send(
            operations.REDRIVE_DEAD_LETTERS,
            body={
                "job_ids": job_ids,
                "filter": filter,
                "per_second": per_second,
                "reason": reason,
                "dry_run": dry_run,
                "cursor": cursor,
            },
        )

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
        `reason`: Why: it stands in the event and the audit.
        """
        return self._send(
            operations.PURGE_DEAD_LETTERS,
            body={
                "job_ids": job_ids,
                "filter": filter,
                "reason": reason,
                "dry_run": dry_run,
                "cursor": cursor,
            },
        )

    def purge(self, job_id: UUID | str) -> None:
        """Remove a failed job for good.

        It cannot be undone; the events that tell of it stay.
        """
        self._send(operations.PURGE_DEAD_LETTER, path={"job_id": job_id})


def _list_dead_letters_items(page: DeadLetterList) -> list[Job | Payment]:
    return [*page.jobs, *page.payments]
