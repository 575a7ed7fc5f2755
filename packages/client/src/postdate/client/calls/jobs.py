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
    Job,
    JobInstantParams,
    JobStatusName,
    QueueDestinationParams,
    RetryParams,
    UniqueParams,
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
        key: str | None = None,
        priority: int | UnsetType = UNSET,
        metadata: Mapping[str, Any] | None = None,
        description: str | None = None,
        unique: UniqueParams | None = None,
        idempotency_key: str | None = None,
    ) -> Job:
        """Create a job.

        Without `run_at` and `delay_seconds` it is due now. With an Idempotency-Key the request
        can be repeated safely: a key is remembered for at least seven days.
        `destination`: Where the work goes: a webhook, a queue, or the workers of the lane.
        `run_at`: The instant it is due.
        `delay_seconds`: Delay in seconds, from the time the server accepts the request.
        `payload`: What is delivered, as it is given: any JSON.
        `payload_base64`: The payload as opaque bytes.
        `content_type`: Media type of the payload; `application/json` if absent.
        `payload_ref`: Where the receiver finds the payload, when it is kept elsewhere.
        `retry`: When to try again; what is absent follows the tenant's settings.
        `timeout_seconds`: How long one try may take.
        `expires_at`: It ends, or is given up, at this instant.
        `spread_seconds`: Start at a random instant within this many seconds after the due time,
        to flatten a spike.
        `lane`: The queue of jobs it belongs to: the unit of fairness, limits and pausing.
        `key`: Whom the job is for, such as a customer or a host; lists are filtered by it. At
        most 255 characters, no control characters.
        `priority`: Order within the lane: 0 goes first, 9 last. Each step is worth a minute of
        waiting.
        `metadata`: Your own data, kept and given back; `kind` chooses a worker's handler.
        `description`: Your own words, shown beside it.
        `unique`: At most one waiting job holds this key.
        """

    @call("create_jobs", "POST", "/jobs/batch", batch="jobs")
    def create_many(
        self, *, jobs: Sequence[BatchJobParams], idempotency_key: str | None = None
    ) -> JobOutcomes:
        """Create up to 1,000 jobs in one commit.

        Each item is accepted or refused separately, with the status a single request would get.
        `jobs`: At most 1000.
        """

    @call("show_job", "GET", "/jobs/{job_id}")
    def get(self, job_id: UUID | str) -> Job:
        """Show a job.

        With its payload, its status, and the result of its last attempt.
        `job_id`: The job's id.
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
        key: str | None = None,
        priority: int | None = None,
        due_after: datetime | None = None,
        due_before: datetime | None = None,
        unique: str | None = None,
        destination: str | None = None,
    ) -> JobList:
        """List jobs.

        With an open status the earliest due comes first, otherwise the newest.
        `limit`: Maximum number of items to return.
        `cursor`: `next_cursor` of the previous page.
        `status`: Where it stands.
        `lane`: The queue of jobs it belongs to: the unit of fairness, limits and pausing.
        `schedule_id`: The schedule's id.
        `key`: Whom the job is for, such as a customer or a host; lists are filtered by it. At
        most 255 characters, no control characters.
        `priority`: Order within the lane: 0 goes first, 9 last. Each step is worth a minute of
        waiting.
        `due_after`: Only what is due at this instant or later.
        `due_before`: Only what is due before this instant.
        `unique`: At most one waiting job holds this key.
        `destination`: Where the work goes: a webhook, a queue, or the workers of the lane.
        """

    @pages(list_page, "jobs")
    def list(
        self,
        *,
        status: JobStatusName | None = None,
        lane: str | None = None,
        schedule_id: UUID | str | None = None,
        key: str | None = None,
        priority: int | None = None,
        due_after: datetime | None = None,
        due_before: datetime | None = None,
        unique: str | None = None,
        destination: str | None = None,
        page_size: int = 100,
    ) -> Iterator[Job]:
        """List jobs, page by page until the end.

        With an open status the earliest due comes first, otherwise the newest.
        `status`: Where it stands.
        `lane`: The queue of jobs it belongs to: the unit of fairness, limits and pausing.
        `schedule_id`: The schedule's id.
        `key`: Whom the job is for, such as a customer or a host; lists are filtered by it. At
        most 255 characters, no control characters.
        `priority`: Order within the lane: 0 goes first, 9 last. Each step is worth a minute of
        waiting.
        `due_after`: Only what is due at this instant or later.
        `due_before`: Only what is due before this instant.
        `unique`: At most one waiting job holds this key.
        `destination`: Where the work goes: a webhook, a queue, or the workers of the lane.
        """

    @call("list_job_attempts", "GET", "/jobs/{job_id}/attempts")
    def list_attempts_page(
        self, job_id: UUID | str, *, limit: int | UnsetType = UNSET, cursor: str | None = None
    ) -> AttemptList:
        """List the attempts at a job.

        One row for each try: when, how long, what was answered, and why it failed.
        `job_id`: The job's id.
        `limit`: Maximum number of items to return.
        `cursor`: `next_cursor` of the previous page.
        """

    @pages(list_attempts_page, "attempts")
    def list_attempts(self, job_id: UUID | str, *, page_size: int = 100) -> Iterator[Attempt]:
        """List the attempts at a job, page by page until the end.

        One row for each try: when, how long, what was answered, and why it failed.
        `job_id`: The job's id.
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
        priority: int | None = None,
    ) -> Job:
        """Change a job that is not running.

        Changes its instant, payload, retries or expiry; a running or finished job answers 409.
        `job_id`: The job's id.
        `run_at`: The instant it is due.
        `delay_seconds`: Delay in seconds, from the time the server accepts the request.
        `payload`: What is delivered, as it is given: any JSON.
        `payload_base64`: The payload as opaque bytes, in base64.
        `content_type`: Media type of the payload; `application/json` if absent.
        `payload_ref`: Where the receiver finds the payload, when it is kept elsewhere.
        `retry`: When to try again; what is absent follows the tenant's settings.
        `timeout_seconds`: How long one try may take.
        `expires_at`: It ends, or is given up, at this instant.
        `priority`: Order within the lane: 0 goes first, 9 last. Each step is worth a minute of
        waiting.
        """

    @call("cancel_job", "POST", "/jobs/{job_id}/cancel")
    def cancel(
        self, job_id: UUID | str, *, deadline_seconds: float | timedelta | None = None
    ) -> CancelledJob:
        """Cancel a job that has not ended.

        A worker that is running it is asked to stop at its next report, and loses its lease at
        the deadline; a job that completes before then is completed. Its work is not undone.
        `job_id`: The job's id.
        `deadline_seconds`: How long the worker of a running job may take to stop; with 0 it loses
        its lease now. Absent: the setting `job.cancel_deadline_seconds`.
        """

    @call("run_job_now", "POST", "/jobs/{job_id}/run-now")
    def run_now(self, job_id: UUID | str) -> Job:
        """Make a pending job due now.

        Everything else, including retries, stays as it was.
        `job_id`: The job's id.
        """

    @call("resolve_job", "POST", "/jobs/{job_id}/resolve")
    def resolve(
        self, job_id: UUID | str, *, outcome: Literal["completed", "failed", "retry"]
    ) -> Job:
        """Resolve a job whose status is UNKNOWN.

        You decide whether the work of the ambiguous attempt was done.
        `job_id`: The job's id.
        `outcome`: How it ended.
        """

    @call("cancel_jobs", "POST", "/jobs/bulk/cancel", repeatable=False)
    def cancel_many(
        self,
        *,
        filter: BulkFilterParams,
        reason: str | None = None,
        deadline_seconds: float | timedelta | None = None,
        dry_run: bool | UnsetType = UNSET,
    ) -> BulkOutcome:
        """Cancel jobs by a filter, at most 10,000 in a call.

        Running jobs only if the filter says RUNNING: their workers are asked to stop. A dry run
        only counts them. If `more` is true, call again.
        `filter`: Which ones are meant.
        `reason`: Reason, recorded in the event and in the audit log.
        `deadline_seconds`: How long the worker of a running job may take to stop; with 0 it loses
        its lease now. Absent: the setting `job.cancel_deadline_seconds`.
        `dry_run`: True changes nothing and answers what would happen.
        """

    @call("reschedule_jobs", "POST", "/jobs/bulk/reschedule", repeatable=False)
    def reschedule_many(
        self,
        *,
        filter: BulkFilterParams,
        to: JobInstantParams,
        reason: str | None = None,
        dry_run: bool | UnsetType = UNSET,
    ) -> BulkOutcome:
        """Reschedule jobs by a filter, at most 10,000 in a call.

        A dry run only counts them. `spread_seconds` spreads their due instants.
        `filter`: Which ones are meant.
        `to`: The new instant; it must be outside the filter.
        `reason`: Reason, recorded in the event and in the audit log.
        `dry_run`: True changes nothing and answers what would happen.
        """
