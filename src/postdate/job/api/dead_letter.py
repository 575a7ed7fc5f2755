"""Dead letters: permanently failed work that waits for a decision."""

from typing import Annotated, Any, Final, Literal
from uuid import UUID

import msgspec
from msgspec import Meta

from postdate.api.services import Services
from postdate.core.field import Instant
from postdate.core.identity import Scope
from postdate.core.ids import MAX_ID
from postdate.core.shape import shaped
from postdate.core.status import JobStatus, PaymentStatus
from postdate.http.endpoint import Body, Call, Reason, Reply
from postdate.http.page import PageQuery, decode_cursor, next_cursor
from postdate.http.routes import Routes
from postdate.job.change.dead_letter import (
    ALREADY,
    MAX_REDRIVE,
    Chosen,
    DeadLetterFilter,
    Pace,
    Redriven,
)
from postdate.job.spec.job import DestinationName, UniqueKey
from postdate.job.spec.view import JobView
from postdate.job.view import AttemptView, JobCursor, JobFilter
from postdate.payment.view.payment import PaymentFilter
from postdate.payment.view.payment_shape import PaymentView
from postdate.words.error import Code, not_found, refuse

ROUTES: Final = Routes("dead letters")

MAX_ATTEMPTS: Final = 100
Ids = Annotated[list[UUID], Meta(min_length=1, max_length=MAX_REDRIVE)]


class DeadLetterQuery(PageQuery, kw_only=True):
    """Failed jobs, or payments that settlement gave up on."""

    type: Annotated[
        Literal["job", "payment"],
        Meta(description="Failed jobs, or payments that were given up.", examples=["payment"]),
    ] = "job"
    lane: str | None = None
    schedule_id: UUID | None = None
    due_after: Instant | None = None
    due_before: Instant | None = None
    code: str | None = None
    unique: UniqueKey | None = None
    destination: DestinationName | None = None


class DeadLetterList(msgspec.Struct, frozen=True, kw_only=True):
    """A page of dead letters, the newest first; payments only when asked for."""

    jobs: list[JobView] = []
    payments: list[PaymentView] = []
    next_cursor: str | None


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A failed job and every attempt at it."""

    job: JobView
    attempts: list[AttemptView]


class FailedJobsBody(Body, kw_only=True):
    """Which failed jobs, by id or by filter, and why."""

    job_ids: Ids | None = None
    filter: DeadLetterFilter | None = None
    reason: Reason | None = None
    dry_run: bool = False
    cursor: str | None = None


class RedriveBody(FailedJobsBody, kw_only=True):
    """Which failed jobs, by id or by filter, how many of them a second, and why."""

    per_second: Annotated[float, Meta(ge=0.001, le=100_000)] | None = None


class RedriveCursor(msgspec.Struct, frozen=True):
    """Where a filter continues, and how many went before: the pace spans all calls."""

    before: UUID
    begun: int


class RedriveOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """One entry for each dead letter; with a filter, `next_cursor` goes on.

    `redriven` counts the redriven dead letters; in a dry run the ones that would be.
    """

    redriven: int
    outcomes: list[Redriven]
    next_cursor: str | None


class PurgeBody(FailedJobsBody, kw_only=True):
    """Which failed jobs to remove for good."""


class PurgeOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """How many were removed, or in a dry run would be; with a filter, `next_cursor` goes on."""

    purged: int
    next_cursor: str | None


@ROUTES.add("GET", "/dead-letters", Scope.JOBS_READ)
async def list_dead_letters(call: Call[Services, None, DeadLetterQuery]) -> DeadLetterList:
    """List failed jobs, or payments that wait for a person.

    Jobs that have failed permanently; `type=payment` lists payments whose settlement failed.
    """
    query = call.query
    if query.type == "payment":
        return await _payments(call)
    after = query.start(JobCursor, None)
    none = dict.fromkeys(("text", "key", "priority"))
    wanted = shaped(JobFilter, query, status=JobStatus.FAILED, **none)
    jobs, following = await call.services.job.read.page(
        call.actor.tenant_id, wanted, after, query.limit
    )
    return DeadLetterList(jobs=jobs, next_cursor=next_cursor(following))


async def _payments(call: Call[Services, None, DeadLetterQuery]) -> DeadLetterList:
    if not call.actor.allows(Scope.PAYMENTS_READ):
        raise refuse(Code.FORBIDDEN, f"The key needs the scope {Scope.PAYMENTS_READ}.", "type")
    before = call.query.start(UUID, MAX_ID)
    found, following = await call.services.payment.read.page(
        call.actor, PaymentFilter(None, PaymentStatus.EXECUTING), before, call.query.limit
    )
    return DeadLetterList(payments=found, next_cursor=next_cursor(following))


@ROUTES.add("GET", "/dead-letters/{job_id:uuid}", Scope.JOBS_READ)
async def show_dead_letter(call: Call[Services, None, None]) -> DeadLetter:
    """Show a failed job.

    With every attempt, so that the cause can be seen before it is repeated.
    """
    job_id, tenant_id = call.uuid("job_id"), call.actor.tenant_id
    views = call.services.job.read
    job = await views.find(tenant_id, job_id)
    attempts = await views.attempts(tenant_id, job_id, 0, MAX_ATTEMPTS)
    if job is None or attempts is None or job.status is not JobStatus.FAILED:
        raise not_found("dead letter", job_id)
    return DeadLetter(job=job, attempts=attempts)


@ROUTES.add(
    "POST",
    "/dead-letters/redrive",
    Scope.JOBS_WRITE,
    halted="new work",
    errors=(Code.INVALID_CURSOR, Code.IDEMPOTENCY_IN_FLIGHT, Code.SECRET_KEY_MISSING),
)
async def redrive_dead_letters(call: Call[Services, RedriveBody, None]) -> RedriveOutcome:
    """Redrive failed jobs, as new jobs.

    Each new job names the failed one; `dry_run` only counts them.
    """
    actor, body, letters = call.actor, call.body, call.services.dead_letter
    cursor = decode_cursor(body.cursor, RedriveCursor) if body.cursor else None
    chosen = await _chosen(call, None if cursor is None else cursor.before)
    begun = cursor.begun if cursor else 0
    if body.dry_run:
        outcomes = await letters.rehearse(actor.tenant_id, chosen.job_ids)
    else:
        pace = Pace(body.per_second, begun)
        outcomes = await letters.redrive(
            actor.tenant_id, chosen.job_ids, pace, actor.key_id, body.reason
        )
    redriven = sum(one.code is None for one in outcomes)
    following = chosen.following and RedriveCursor(chosen.following, begun + redriven)
    return RedriveOutcome(redriven=redriven, outcomes=outcomes, next_cursor=next_cursor(following))


@ROUTES.add("POST", "/dead-letters/purge", Scope.JOBS_WRITE, errors=(Code.INVALID_CURSOR,))
async def purge_dead_letters(call: Call[Services, PurgeBody, None]) -> PurgeOutcome:
    """Remove failed jobs for good.

    It cannot be undone; `dry_run` only counts them.
    """
    actor, body = call.actor, call.body
    before = decode_cursor(body.cursor, UUID) if body.cursor else None
    chosen = await _chosen(call, before)
    letters = call.services.dead_letter
    if body.dry_run:
        outcomes = await letters.rehearse(actor.tenant_id, chosen.job_ids)
        purged = sum(one.code in {None, ALREADY} for one in outcomes)
    else:
        removed = await letters.purge(actor.tenant_id, chosen.job_ids, actor.key_id, body.reason)
        purged = len(removed)
    following = next_cursor(chosen.following)
    return PurgeOutcome(purged=purged, next_cursor=following)


@ROUTES.add("DELETE", "/dead-letters/{job_id:uuid}", Scope.JOBS_WRITE)
async def purge_dead_letter(call: Call[Services, None, None]) -> Reply:
    """Remove a failed job for good.

    It cannot be undone; the job's events stay.
    """
    actor, job_id = call.actor, call.uuid("job_id")
    if not await call.services.dead_letter.purge(actor.tenant_id, [job_id], actor.key_id):
        raise not_found("dead letter", job_id)
    return Reply()


async def _chosen(call: Call[Services, Any, None], before: UUID | None) -> Chosen:
    body: FailedJobsBody = call.body
    job_ids, wanted = body.job_ids, body.filter
    if (job_ids is None) == (wanted is None):
        raise refuse(Code.INVALID_FIELD, "Give either `job_ids` or a `filter`.", "job_ids")
    if wanted is None:
        return Chosen(job_ids or [], None)
    return await call.services.dead_letter.choose(call.actor.tenant_id, wanted, before, MAX_REDRIVE)
