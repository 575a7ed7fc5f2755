"""Jobs: create one or many, show them, list them."""

from datetime import datetime
from typing import Annotated, Any, Final
from uuid import UUID

import msgspec
from msgspec import Meta

from postdate.api.services import Services
from postdate.core.identity import Scope
from postdate.core.shape import shaped
from postdate.core.status import JobStatus
from postdate.http.endpoint import Body, Call, Reply, existing
from postdate.http.page import PageQuery, encode_cursor, next_cursor
from postdate.http.routes import Routes
from postdate.intake.answer_once import reply
from postdate.intake.batch import batch_reply, decoded, item_schema, merge_results
from postdate.job.accept.request import JobRequest
from postdate.job.spec.job import MAX_BATCH, DestinationName, JobSpec, Key, UniqueKey
from postdate.job.spec.view import JobView
from postdate.job.view import AttemptView, JobCursor, JobFilter
from postdate.lane.spec import Priority
from postdate.words.error import Code, Refusal, refuse
from postdate.words.problem import Problem

ROUTES: Final = Routes("jobs")

JOB_BYTES: Final = 512 * 1024
"""A payload of 256 KB as base64, with room for the rest."""

BATCH_BYTES: Final = 16 * 1024 * 1024
_REFUSALS: Final = (
    Code.DUE_IN_PAST,
    Code.BEYOND_HORIZON,
    Code.PAYLOAD_TOO_LARGE,
    Code.TARGET_NOT_ALLOWED,
    Code.UNKNOWN_DESTINATION,
    Code.TOO_MANY_LANES,
    Code.QUOTA_EXCEEDED,
    Code.SECRET_KEY_MISSING,
)


class JobBatchItem(JobSpec, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A job of a batch, with a key of its own."""

    idempotency_key: (
        Annotated[str, Meta(min_length=1, max_length=255, pattern=r"^[ -~]+$(?!\n)")] | None
    ) = None


class JobBatchBody(Body, kw_only=True):
    """Up to a thousand jobs; each is accepted or refused separately."""

    jobs: Annotated[
        list[Annotated[msgspec.Raw, Meta(extra_json_schema=item_schema(JobBatchItem))]],
        Meta(min_length=1, description=f"At most {MAX_BATCH}."),
    ]


_item: Final = msgspec.json.Decoder(JobBatchItem)


class JobOutcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The outcome of one item: a job, or a problem."""

    status: Annotated[int, Meta(description="What a single request would have answered.")]
    job: JobView | None = None
    problem: Problem | None = None
    replayed: Annotated[bool, Meta(description="Whether this is a stored answer to the key.")] = (
        False
    )


class JobOutcomes(msgspec.Struct, frozen=True, kw_only=True):
    """One outcome for each item, in the order of the request."""

    accepted: Annotated[int, Meta(description="How many were accepted.")]
    refused: Annotated[int, Meta(description="How many were refused.")]
    outcomes: list[JobOutcome]


class JobQuery(PageQuery, kw_only=True):
    """Which jobs to list."""

    status: JobStatus | None = None
    lane: str | None = None
    schedule_id: UUID | None = None
    key: Key | None = None
    priority: Priority | None = None
    due_after: Annotated[datetime, Meta(tz=True)] | None = None
    due_before: Annotated[datetime, Meta(tz=True)] | None = None
    unique: UniqueKey | None = None
    destination: DestinationName | None = None


class JobList(msgspec.Struct, frozen=True, kw_only=True):
    """A page of jobs; it may be short though more follow, `next_cursor` says."""

    jobs: list[JobView]
    next_cursor: str | None


class AttemptCursor(msgspec.Struct, frozen=True):
    """The attempt after which the next page begins."""

    after: Annotated[int, Meta(ge=0, le=2**31 - 1)]


class AttemptList(msgspec.Struct, frozen=True, kw_only=True):
    """The attempts at a job, in order."""

    attempts: list[AttemptView]
    next_cursor: str | None


@ROUTES.add(
    "POST",
    "/jobs",
    Scope.JOBS_WRITE,
    returns=JobView,
    halted="new work",
    status=201,
    idempotency="optional",
    max_body=JOB_BYTES,
    errors=_REFUSALS,
)
async def create_job(call: Call[Services, JobSpec, None]) -> Reply:
    """Create a job.

    Without `run_at` and `delay_seconds` it is due now. With an Idempotency-Key the request can be
    repeated safely: a key is remembered for at least seven days.
    """
    request = _request(call, call.body, call.idempotency_key)
    return reply(await call.services.job.intake.submit(request), call.request_id)


@ROUTES.add(
    "POST",
    "/jobs/batch",
    Scope.JOBS_WRITE,
    returns=JobOutcomes,
    halted="new work",
    max_body=BATCH_BYTES,
    errors=(Code.BATCH_TOO_LARGE, Code.IDEMPOTENCY_IN_FLIGHT, Code.SECRET_KEY_MISSING),
)
async def create_jobs(call: Call[Services, JobBatchBody, None]) -> Reply:
    """Create up to 1,000 jobs in one commit.

    Each item is accepted or refused separately, with the status a single request would get.
    """
    items = call.body.jobs
    if len(items) > MAX_BATCH:
        raise refuse(Code.BATCH_TOO_LARGE, f"A batch has at most {MAX_BATCH} items.", "jobs")
    specs = decoded(_item, items)
    requests = [
        _request(call, spec, spec.idempotency_key)
        for spec in specs
        if not isinstance(spec, Refusal)
    ]
    results = await call.services.job.intake.accept(requests)
    return batch_reply("job", merge_results(specs, results), call.request_id)


def _request(call: Call[Services, Any, None], spec: JobSpec, key: str | None) -> JobRequest:
    actor = call.actor
    return JobRequest(
        tenant_id=actor.tenant_id,
        spec=spec,
        actor=actor.key_id,
        key=key,
        traceparent=call.traceparent,
    )


@ROUTES.add("GET", "/jobs/{job_id:uuid}", Scope.JOBS_READ)
async def show_job(call: Call[Services, Any, None]) -> JobView:
    """Show a job.

    With its payload, its status, and the result of its last attempt.
    """
    job_id = call.uuid("job_id")
    return existing(await call.services.job.read.find(call.actor.tenant_id, job_id), "job", job_id)


@ROUTES.add("GET", "/jobs", Scope.JOBS_READ)
async def list_jobs(call: Call[Services, None, JobQuery]) -> JobList:
    """List jobs.

    With an open status the earliest due comes first, otherwise the newest.
    """
    query = call.query
    after = query.start(JobCursor, None)
    wanted = shaped(JobFilter, query, code=None, text=None)
    jobs, following = await call.services.job.read.page(
        call.actor.tenant_id, wanted, after, query.limit
    )
    return JobList(jobs=jobs, next_cursor=next_cursor(following))


@ROUTES.add("GET", "/jobs/{job_id:uuid}/attempts", Scope.JOBS_READ)
async def list_job_attempts(call: Call[Services, None, PageQuery]) -> AttemptList:
    """List the attempts at a job.

    One row for each try: when, how long, what was answered, and why it failed.
    """
    job_id, limit = call.uuid("job_id"), call.query.limit
    after = call.query.start(AttemptCursor, AttemptCursor(0)).after
    found = existing(
        await call.services.job.read.attempts(call.actor.tenant_id, job_id, after, limit + 1),
        "job",
        job_id,
    )
    more = len(found) > limit
    return AttemptList(
        attempts=found[:limit],
        next_cursor=encode_cursor(AttemptCursor(found[limit - 1].attempt)) if more else None,
    )
