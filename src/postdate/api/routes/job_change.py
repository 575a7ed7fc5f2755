"""Change jobs: update, cancel, run now, resolve; many at once by a filter."""

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from postdate.api.http.endpoint import AnyEndpoint, Body, Call, Endpoint, Reason
from postdate.api.routes.job import JOB_BYTES, show_job
from postdate.api.services import Services
from postdate.intake.job.bulk import BulkFilter, BulkOutcome, Instant
from postdate.intake.job.change import CancelResult, JobPatch, Resolution
from postdate.model.error import Code
from postdate.model.job.view import JobView
from postdate.model.status import JobStatus
from postdate.model.tenant.identity import Scope

BULK_SECONDS: Final = 60.0


class CancelledJob(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a cancellation. A job that was running may have taken effect."""

    status: JobStatus
    result: CancelResult


class ResolveBody(Body, kw_only=True):
    """The outcome of a job whose status is UNKNOWN; `retry` attempts it again."""

    outcome: Resolution


class BulkCancelBody(Body, kw_only=True):
    """Which jobs to cancel; a dry run only counts them."""

    filter: BulkFilter
    reason: Reason | None = None
    dry_run: bool = False


class BulkRescheduleBody(Body, kw_only=True):
    """Which jobs to move, and where to."""

    filter: BulkFilter
    to: Annotated[Instant, Meta(description="The new instant; it lies outside the filter.")]
    reason: Reason | None = None
    dry_run: bool = False


async def change_job(call: Call[Services, JobPatch, None]) -> JobView:
    """Change time, payload or policy before the next execution."""
    actor, job_id = call.actor, call.uuid("job_id")
    await call.services.job.change.patch(actor.tenant_id, job_id, call.body, actor.key_id)
    return await show_job(call)


async def cancel_job(call: Call[Services, None, None]) -> CancelledJob:
    """Cancel a job."""
    actor, job_id = call.actor, call.uuid("job_id")
    result = await call.services.job.change.cancel(actor.tenant_id, job_id, actor.key_id)
    return CancelledJob(status=JobStatus.CANCELLED, result=result)


async def run_job_now(call: Call[Services, None, None]) -> JobView:
    """Make a pending job due at once."""
    actor, job_id = call.actor, call.uuid("job_id")
    await call.services.job.change.run_now(actor.tenant_id, job_id, actor.key_id)
    return await show_job(call)


async def resolve_job(call: Call[Services, ResolveBody, None]) -> JobView:
    """Resolve a job whose outcome is unknown."""
    actor, job_id = call.actor, call.uuid("job_id")
    changes = call.services.job.change
    await changes.resolve(actor.tenant_id, job_id, call.body.outcome, actor.key_id)
    return await show_job(call)


async def cancel_jobs(call: Call[Services, BulkCancelBody, None]) -> BulkOutcome:
    """Cancel by a filter."""
    actor, body = call.actor, call.body
    return await call.services.job.bulk.cancel(
        actor.tenant_id, body.filter, actor.key_id, body.reason, dry_run=body.dry_run
    )


async def reschedule_jobs(call: Call[Services, BulkRescheduleBody, None]) -> BulkOutcome:
    """Reschedule by a filter."""
    actor, body = call.actor, call.body
    return await call.services.job.bulk.reschedule(
        actor.tenant_id, body.filter, body.to, actor.key_id, body.reason, dry_run=body.dry_run
    )


ENDPOINTS: Final[list[AnyEndpoint]] = [
    Endpoint(
        method="PATCH",
        path="/jobs/{job_id:uuid}",
        handler=change_job,
        scope=Scope.JOBS_WRITE,
        body=JobPatch,
        returns=JobView,
        max_body=JOB_BYTES,
        summary="Change a job that is not running",
        description="Its instant, payload, retries or expiry; one that runs or has ended answers "
        "409.",
        tag="jobs",
        errors=(
            Code.CONFLICT,
            Code.DUE_IN_PAST,
            Code.BEYOND_HORIZON,
            Code.PAYLOAD_TOO_LARGE,
            Code.UNAVAILABLE,
        ),
    ),
    Endpoint(
        method="POST",
        path="/jobs/{job_id:uuid}/cancel",
        handler=cancel_job,
        scope=Scope.JOBS_WRITE,
        returns=CancelledJob,
        summary="Cancel a job, at any moment before its end",
        description="A worker that has it is told at its next report; what it did by then is not "
        "undone.",
        tag="jobs",
        errors=(Code.CONFLICT, Code.UNAVAILABLE),
    ),
    Endpoint(
        method="POST",
        path="/jobs/{job_id:uuid}/run-now",
        handler=run_job_now,
        scope=Scope.JOBS_WRITE,
        returns=JobView,
        summary="Make a pending job due at once",
        description="The rest of it, retries included, stays as it was registered.",
        tag="jobs",
        errors=(Code.CONFLICT, Code.UNAVAILABLE),
    ),
    Endpoint(
        method="POST",
        path="/jobs/{job_id:uuid}/resolve",
        handler=resolve_job,
        scope=Scope.JOBS_WRITE,
        body=ResolveBody,
        returns=JobView,
        summary="Say what became of a job whose status is UNKNOWN",
        description="Only a person can say whether the work of an ambiguous attempt was done.",
        tag="jobs",
        errors=(Code.CONFLICT, Code.UNAVAILABLE),
    ),
    Endpoint(
        method="POST",
        path="/jobs/bulk/cancel",
        handler=cancel_jobs,
        scope=Scope.JOBS_WRITE,
        body=BulkCancelBody,
        returns=BulkOutcome,
        max_seconds=BULK_SECONDS,
        summary="Cancel jobs by a filter, at most 10,000 in a call",
        description="A dry run counts them first. `more` says that another call is needed.",
        tag="jobs",
        errors=(Code.UNAVAILABLE,),
    ),
    Endpoint(
        method="POST",
        path="/jobs/bulk/reschedule",
        handler=reschedule_jobs,
        scope=Scope.JOBS_WRITE,
        body=BulkRescheduleBody,
        returns=BulkOutcome,
        max_seconds=BULK_SECONDS,
        summary="Reschedule jobs by a filter, at most 10,000 in a call",
        description="A dry run counts them first. `spread_seconds` keeps them from being due all "
        "at once.",
        tag="jobs",
        errors=(Code.DUE_IN_PAST, Code.BEYOND_HORIZON, Code.UNAVAILABLE),
    ),
]
