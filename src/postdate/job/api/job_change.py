"""Change jobs: update, cancel, run now, resolve; many at once by a filter."""

from datetime import datetime
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from postdate.api.services import Services
from postdate.core.identity import Scope
from postdate.core.status import JobStatus
from postdate.http.endpoint import Body, Call, Reason
from postdate.http.routes import Routes
from postdate.job.api.job import JOB_BYTES, show_job
from postdate.job.change.change import CancelAnswer, CancelRequest, JobPatch, Resolution
from postdate.job.spec.bulk import BulkFilter, BulkOutcome, JobInstant
from postdate.job.spec.view import JobView
from postdate.words.error import Code

ROUTES: Final = Routes("jobs")

BULK_SECONDS: Final = 60.0
MAX_CANCEL_SECONDS: Final = 86400


DeadlineSeconds = Annotated[
    float,
    Meta(
        ge=0,
        le=MAX_CANCEL_SECONDS,
        description="How long the worker of a running job may take to stop; with 0 it loses its "
        "lease now. Absent: the setting `job.cancel_deadline_seconds`.",
        examples=[30],
    ),
]


class CancelBody(Body, kw_only=True):
    """How long the worker of a running job may take to stop."""

    deadline_seconds: DeadlineSeconds | None = None


class CancelledJob(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of a cancellation. A job that was running may have taken effect.

    `cancel_requested` says that the job still runs: its worker was asked to stop, and loses its
    lease at `cancel_deadline`.
    """

    status: JobStatus
    result: CancelAnswer
    cancel_deadline: datetime | None = None


class ResolveBody(Body, kw_only=True):
    """The outcome of a job whose status is UNKNOWN; `retry` attempts it again."""

    outcome: Resolution


class BulkCancelBody(Body, kw_only=True):
    """Which jobs to cancel; a dry run only counts them."""

    filter: BulkFilter
    reason: Reason | None = None
    deadline_seconds: DeadlineSeconds | None = None
    dry_run: bool = False


class BulkRescheduleBody(Body, kw_only=True):
    """Which jobs to move, and where to."""

    filter: BulkFilter
    to: Annotated[JobInstant, Meta(description="The new instant; it must be outside the filter.")]
    reason: Reason | None = None
    dry_run: bool = False


@ROUTES.add(
    "PATCH",
    "/jobs/{job_id:uuid}",
    Scope.JOBS_WRITE,
    max_body=JOB_BYTES,
    errors=(
        Code.DUE_IN_PAST,
        Code.BEYOND_HORIZON,
        Code.PAYLOAD_TOO_LARGE,
        Code.SECRET_KEY_MISSING,
    ),
)
async def change_job(call: Call[Services, JobPatch, None]) -> JobView:
    """Change a job that is not running.

    Changes its instant, payload, retries or expiry; a running or finished job answers 409.
    """
    actor, job_id = call.actor, call.uuid("job_id")
    await call.services.job.change.patch(actor.tenant_id, job_id, call.body, actor.key_id)
    return await show_job(call)


@ROUTES.add(
    "POST",
    "/jobs/{job_id:uuid}/cancel",
    Scope.JOBS_WRITE,
)
async def cancel_job(call: Call[Services, CancelBody, None]) -> CancelledJob:
    """Cancel a job that has not ended.

    A worker that is running it is asked to stop at its next report, and loses its lease at the
    deadline; a job that completes before then is completed. Its work is not undone.
    """
    actor, job_id = call.actor, call.uuid("job_id")
    result = await call.services.job.change.cancel(
        actor.tenant_id, job_id, actor.key_id, call.body.deadline_seconds
    )
    if isinstance(result, CancelRequest):
        return CancelledJob(
            status=JobStatus.RUNNING, result="cancel_requested", cancel_deadline=result.deadline
        )
    return CancelledJob(status=JobStatus.CANCELLED, result=result)


@ROUTES.add(
    "POST",
    "/jobs/{job_id:uuid}/run-now",
    Scope.JOBS_WRITE,
)
async def run_job_now(call: Call[Services, None, None]) -> JobView:
    """Make a pending job due now.

    Everything else, including retries, stays as it was.
    """
    actor, job_id = call.actor, call.uuid("job_id")
    await call.services.job.change.run_now(actor.tenant_id, job_id, actor.key_id)
    return await show_job(call)


@ROUTES.add(
    "POST",
    "/jobs/{job_id:uuid}/resolve",
    Scope.JOBS_WRITE,
)
async def resolve_job(call: Call[Services, ResolveBody, None]) -> JobView:
    """Resolve a job whose status is UNKNOWN.

    You decide whether the work of the ambiguous attempt was done.
    """
    actor, job_id = call.actor, call.uuid("job_id")
    changes = call.services.job.change
    await changes.resolve(actor.tenant_id, job_id, call.body.outcome, actor.key_id)
    return await show_job(call)


@ROUTES.add("POST", "/jobs/bulk/cancel", Scope.JOBS_WRITE, max_seconds=BULK_SECONDS)
async def cancel_jobs(call: Call[Services, BulkCancelBody, None]) -> BulkOutcome:
    """Cancel jobs by a filter, at most 10,000 in a call.

    Running jobs only if the filter says RUNNING: their workers are asked to stop. A dry run only
    counts them. If `more` is true, call again.
    """
    actor, body = call.actor, call.body
    return await call.services.job.bulk.cancel(
        actor.tenant_id,
        body.filter,
        actor.key_id,
        body.reason,
        seconds=body.deadline_seconds,
        dry_run=body.dry_run,
    )


@ROUTES.add(
    "POST",
    "/jobs/bulk/reschedule",
    Scope.JOBS_WRITE,
    max_seconds=BULK_SECONDS,
    errors=(Code.DUE_IN_PAST, Code.BEYOND_HORIZON),
)
async def reschedule_jobs(call: Call[Services, BulkRescheduleBody, None]) -> BulkOutcome:
    """Reschedule jobs by a filter, at most 10,000 in a call.

    A dry run only counts them. `spread_seconds` spreads their due instants.
    """
    actor, body = call.actor, call.body
    return await call.services.job.bulk.reschedule(
        actor.tenant_id, body.filter, body.to, actor.key_id, body.reason, dry_run=body.dry_run
    )
