"""Calls about jobs. Written by `make docs` from the endpoints."""

# mypy: disable-error-code="empty-body"

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal
from uuid import UUID

from msgspec import UNSET, UnsetType

from postdate.client.call import Group, K, call, pages
from postdate.client.models.jobs import (
    AttemptList,
    BatchJobParams,
    BulkOutcome,
    CancelledJob,
    JobList,
    JobOutcomes,
)
from postdate.client.models.shared import (
    Attempt,
    BulkFilterParams,
    InstantParams,
    Job,
    JobStatusName,
    QueueDestinationParams,
    RetryParams,
    WebhookDestinationParams,
    WorkerDestinationParams,
)


class Jobs(Group[K]):
    """What the API offers about jobs."""

    @call("create_job", "POST", "/jobs")
    def create(
        self,
        *,
        destination: WebhookDestinationParams | QueueDestinationParams | WorkerDestinationParams,
        run_at: datetime | None = None,
        delay_seconds: float | timedelta | None = None,
        payload: Any = UNSET,
        payload_base64: str | None = None,
        content_type: str | None = None,
        payload_ref: str | None = None,
        retry: RetryParams | None = None,
        timeout_seconds: float | timedelta | None = None,
        expires_at: datetime | None = None,
        spread_seconds: int | timedelta | None = None,
        lane: str | UnsetType = UNSET,
        metadata: Mapping[str, Any] | None = None,
        description: str | None = None,
        idempotency_key: str | None = None,
    ) -> Job:
        """Register a job.

        Neither `run_at` nor `delay_seconds` means now. With an Idempotency-Key the request can be
        repeated safely: a key is remembered for at least seven days.
        `payload_base64`: The payload as opaque bytes.
        """

    @call("create_jobs", "POST", "/jobs/batch", batch="jobs")
    def create_many(
        self, *, jobs: Sequence[BatchJobParams], idempotency_key: str | None = None
    ) -> JobOutcomes:
        """Register up to 1,000 jobs in one commit.

        Each item is accepted or refused for itself, with the status a single request would have
        had.
        `jobs`: At most 1000.
        """

    @call("show_job", "GET", "/jobs/{job_id}")
    def get(self, job_id: UUID | str) -> Job:
        """Show a job.

        With its payload, where it stands, and how its last attempt went.
        """

    @call("list_jobs", "GET", "/jobs")
    def list_page(
        self,
        *,
        limit: int | UnsetType = UNSET,
        cursor: str | None = None,
        status: JobStatusName | None = None,
        lane: str | None = None,
        schedule_id: UUID | str | None = None,
        due_after: datetime | None = None,
        due_before: datetime | None = None,
    ) -> JobList:
        """List jobs.

        With an open status the soonest comes first, otherwise the newest.
        `limit`: How many items to return at most.
        `cursor`: `next_cursor` of the page before.
        """

    @pages(list_page, "jobs")
    def list(
        self,
        *,
        status: JobStatusName | None = None,
        lane: str | None = None,
        schedule_id: UUID | str | None = None,
        due_after: datetime | None = None,
        due_before: datetime | None = None,
        page_size: int = 100,
    ) -> Iterator[Job]:
        """List jobs, page by page until the end.

        With an open status the soonest comes first, otherwise the newest.
        """

    @call("list_job_attempts", "GET", "/jobs/{job_id}/attempts")
    def list_attempts_page(
        self, job_id: UUID | str, *, limit: int | UnsetType = UNSET, cursor: str | None = None
    ) -> AttemptList:
        """List the attempts at a job.

        One row for each try: when, how long, what was answered, and why it failed.
        `limit`: How many items to return at most.
        `cursor`: `next_cursor` of the page before.
        """

    @pages(list_attempts_page, "attempts")
    def list_attempts(self, job_id: UUID | str, *, page_size: int = 100) -> Iterator[Attempt]:
        """List the attempts at a job, page by page until the end.

        One row for each try: when, how long, what was answered, and why it failed.
        """

    @call("change_job", "PATCH", "/jobs/{job_id}")
    def change(
        self,
        job_id: UUID | str,
        *,
        run_at: datetime | None = None,
        delay_seconds: float | timedelta | None = None,
        payload: Any = UNSET,
        payload_base64: str | None = None,
        content_type: str | None = None,
        payload_ref: str | None = None,
        retry: RetryParams | UnsetType | None = UNSET,
        timeout_seconds: float | timedelta | UnsetType | None = UNSET,
        expires_at: datetime | UnsetType | None = UNSET,
    ) -> Job:
        """Change a job that is not running.

        Its instant, payload, retries or expiry; one that runs or has ended answers 409.
        """

    @call("cancel_job", "POST", "/jobs/{job_id}/cancel")
    def cancel(self, job_id: UUID | str) -> CancelledJob:
        """Cancel a job, at any moment before its end.

        A worker that has it is told at its next report; what it did by then is not undone.
        """

    @call("run_job_now", "POST", "/jobs/{job_id}/run-now")
    def run_now(self, job_id: UUID | str) -> Job:
        """Make a pending job due at once.

        The rest of it, retries included, stays as it was registered.
        """

    @call("resolve_job", "POST", "/jobs/{job_id}/resolve")
    def resolve(
        self, job_id: UUID | str, *, outcome: Literal["completed", "failed", "retry"]
    ) -> Job:
        """Say what became of a job whose status is UNKNOWN.

        Only a person can say whether the work of an ambiguous attempt was done.
        """

    @call("cancel_jobs", "POST", "/jobs/bulk/cancel", repeatable=False)
    def cancel_many(
        self,
        *,
        filter: BulkFilterParams,
        reason: str | None = None,
        dry_run: bool | UnsetType = UNSET,
    ) -> BulkOutcome:
        """Cancel jobs by a filter, at most 10,000 in a call.

        A dry run counts them first. `more` says that another call is needed.
        `reason`: Why: it stands in the event and the audit.
        """

    @call("reschedule_jobs", "POST", "/jobs/bulk/reschedule", repeatable=False)
    def reschedule_many(
        self,
        *,
        filter: BulkFilterParams,
        to: InstantParams,
        reason: str | None = None,
        dry_run: bool | UnsetType = UNSET,
    ) -> BulkOutcome:
        """Reschedule jobs by a filter, at most 10,000 in a call.

        A dry run counts them first. `spread_seconds` keeps them from being due all at once.
        `to`: The new instant; it lies outside the filter.
        `reason`: Why: it stands in the event and the audit.
        """
