"""Leases: workers that claim their jobs over HTTP."""

import asyncio
from base64 import b64encode
from datetime import datetime
from functools import partial
from typing import Annotated, Any, Final
from uuid import UUID

import msgspec
from msgspec import Meta

from postdate.api.services import Services
from postdate.core.identity import Scope
from postdate.core.shape import shaped
from postdate.http.endpoint import Body, Call
from postdate.http.routes import Routes
from postdate.job.spec.outcome import RESULT_BYTES, Completed, Failed, Throttled, Unknown
from postdate.lease.change.lease import MAX_CLAIM, MAX_WAIT_SECONDS, ClaimAsk, Leased
from postdate.lease.change.renewal import HeldBy, ProgressReport, Renewed
from postdate.lease.change.report import Report
from postdate.words.error import Code, refuse

ROUTES: Final = Routes("leases")

CHECKPOINT_BYTES: Final = 16 * 1024
"""The largest checkpoint; more belongs elsewhere, and its address into the checkpoint."""

MAX_LINES: Final = 100
"""The most lines of log in one call."""

JSON: Final = "application/json"
LeaseSeconds = Annotated[float, Meta(ge=1, le=3600)]
Token = Annotated[int, Meta(ge=1, le=2**53 - 1)]


class ClaimBody(Body, kw_only=True):
    """How many jobs to claim, for how long, and how long to wait for the first."""

    max: Annotated[int, Meta(ge=1, le=MAX_CLAIM)] = 1
    lease_seconds: LeaseSeconds = 30.0
    wait_seconds: Annotated[float, Meta(ge=0, le=MAX_WAIT_SECONDS)] = 0.0


class LeaseView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A job leased to the worker until `lease_until`, unless renewed."""

    job_id: UUID
    token: int
    attempt: int
    max_attempts: int
    lease_until: datetime
    due_at: datetime
    payload: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    payload_base64: str | None = None
    content_type: str | None = None
    payload_ref: str | None = None
    metadata: dict[str, Any] | None = None
    timeout_seconds: float
    schedule_id: UUID | None = None
    scheduled_for: datetime | None = None
    traceparent: str | None = None
    checkpoint: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class LeaseList(msgspec.Struct, frozen=True, kw_only=True):
    """The leases just claimed; none when nothing was due in time."""

    leases: list[LeaseView]


class CompleteBody(Body, kw_only=True):
    """The token of the lease, and what is worth keeping of the result."""

    token: Token
    result: Annotated[
        msgspec.Raw | msgspec.UnsetType, Meta(description="Any JSON, up to 64 KiB.")
    ] = msgspec.UNSET
    result_ref: (
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=2048,
                description="Where you have put a larger result; kept and shown as it is.",
            ),
        ]
        | None
    ) = None


class FailBody(Body, kw_only=True):
    """What went wrong; `unknown` says that the effect may have happened all the same."""

    token: Token
    error: Annotated[str, Meta(min_length=1, max_length=2000)]
    code: Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_]{0,62}$(?!\n)")] = "worker_failed"
    retryable: bool = True
    retry_after_seconds: Annotated[float, Meta(ge=0, le=7 * 86400)] | None = None
    unknown: bool = False


class RenewBody(Body, kw_only=True):
    """The token of the lease, and how long it is needed from now on."""

    token: Token
    lease_seconds: LeaseSeconds = 30.0


class ProgressBody(RenewBody, kw_only=True):
    """The token of the lease, and what the worker reports; an absent field stays as it is."""

    percent: (
        Annotated[float, Meta(ge=0, le=100, description="How much is done, 0 to 100.")] | None
    ) = None
    note: (
        Annotated[str, Meta(max_length=500, description="What the worker is doing now.")] | None
    ) = None
    checkpoint: Annotated[
        msgspec.Raw | msgspec.UnsetType,
        Meta(description="Any JSON, up to 16 KiB: the next attempt gets the last one."),
    ] = msgspec.UNSET
    log: (
        Annotated[
            list[Annotated[str, Meta(max_length=1000)]],
            Meta(max_length=MAX_LINES, description="Lines that are kept with this attempt."),
        ]
        | None
    ) = None


class ReleaseBody(Body, kw_only=True):
    """The token of a lease whose work was not begun."""

    token: Token


class ReportView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The status of the job; for a retry also when."""

    job_id: UUID
    status: str
    retry_in_seconds: float | None = None


class RenewView(msgspec.Struct, frozen=True, kw_only=True):
    """Until when the lease holds now, and whether the worker should stop.

    A job that is to be cancelled loses its lease at `cancel_deadline`.
    """

    job_id: UUID
    lease_until: datetime
    cancel_requested: bool = False
    cancel_requested_at: datetime | None = None
    cancel_deadline: datetime | None = None


@ROUTES.add(
    "POST",
    "/lanes/{lane}/claim",
    Scope.JOBS_WRITE,
    max_seconds=MAX_WAIT_SECONDS + 10,
    errors=(Code.SECRET_KEY_MISSING,),
)
async def claim_jobs(call: Call[Services, ClaimBody, None]) -> LeaseList:
    """Claim due jobs of a lane.

    Claims only jobs whose destination is a worker; waits if none is due.
    """
    if call.body.wait_seconds:
        call.hold_open()
    gone = asyncio.Event()
    watching = [
        asyncio.create_task(call.disconnected()),
        asyncio.create_task(call.draining.wait()),
    ]
    for each in watching:
        each.add_done_callback(lambda _: gone.set())
    ask = ClaimAsk(
        tenant_id=call.actor.tenant_id,
        lane=call.text("lane"),
        holder=call.actor.holder,
        max_leases=call.body.max,
        lease_seconds=call.body.lease_seconds,
        wait_seconds=call.body.wait_seconds,
        gone=gone,
    )
    try:
        leased = await call.services.lease.claim.claim(ask)
    finally:
        for each in watching:
            each.cancel()
    return LeaseList(leases=[_view(each) for each in leased])


def _view(leased: Leased) -> LeaseView:
    job = leased.delivery
    payload: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    opaque = None
    if job.payload is not None and job.content_type == JSON:
        payload = msgspec.Raw(job.payload)
    elif job.payload is not None:
        opaque = b64encode(job.payload).decode()
    return shaped(
        LeaseView,
        job,
        lease_until=leased.lease_until,
        payload=payload,
        payload_base64=opaque,
        metadata=None if job.metadata is None else dict(job.metadata),
        checkpoint=msgspec.UNSET if job.checkpoint is None else msgspec.Raw(job.checkpoint),
    )


_reports: Final = partial(
    ROUTES.add, "POST", scope=Scope.JOBS_WRITE, errors=(Code.LEASE_LOST,), halted="served"
)
"""What holds for every report about a lease."""

_COMPLETE_REFUSALS: Final = (Code.LEASE_LOST, Code.PAYLOAD_TOO_LARGE)
_PROGRESS_REFUSALS: Final = (*_COMPLETE_REFUSALS, Code.SECRET_KEY_MISSING)


@_reports("/leases/{job_id:uuid}/complete", errors=_COMPLETE_REFUSALS)
async def complete_lease(call: Call[Services, CompleteBody, None]) -> ReportView:
    """Complete a job.

    The token of the claim proves the lease; a stale one changes nothing.
    """
    result = call.body.result
    kept = None if result is msgspec.UNSET else bytes(result)
    if kept is not None and len(kept) > RESULT_BYTES:
        raise refuse(
            Code.PAYLOAD_TOO_LARGE, f"A result has at most {RESULT_BYTES} bytes.", "result"
        )
    if (ref := call.body.result_ref) is None:
        return await _report(call, call.body.token, Completed(response=kept))
    if kept is not None:
        raise refuse(Code.INVALID_FIELD, "Give `result` or `result_ref`.", "result_ref")
    elsewhere = Completed(response=ref.encode(), code="result_elsewhere")
    return await _report(call, call.body.token, elsewhere)


@_reports("/leases/{job_id:uuid}/fail")
async def fail_lease(call: Call[Services, FailBody, None]) -> ReportView:
    """Fail an attempt; the job's policy decides what follows.

    The token of the claim proves the lease; a stale one changes nothing.
    """
    body = call.body
    if body.unknown:
        return await _report(call, body.token, Unknown(code=body.code, error=body.error))
    failed = Failed(
        code=body.code,
        error=body.error,
        retryable=body.retryable,
        retry_after_seconds=body.retry_after_seconds,
    )
    return await _report(call, body.token, failed)


@_reports("/leases/{job_id:uuid}/release")
async def release_lease(call: Call[Services, ReleaseBody, None]) -> ReportView:
    """Release a job that was not started: it is due again, and no attempt is counted.

    The token of the claim proves the lease; a stale one changes nothing.
    """
    return await _report(call, call.body.token, Throttled(seconds=0.0, reason="released"))


async def _report(
    call: Call[Services, Any, None], token: int, outcome: Completed | Failed | Throttled | Unknown
) -> ReportView:
    actor = call.actor
    job_id = call.uuid("job_id")
    reported = await call.services.lease.report.submit(
        Report(actor.tenant_id, job_id, token, outcome, actor.key_id)
    )
    return ReportView(
        job_id=job_id, status=reported.status, retry_in_seconds=reported.retry_in_seconds
    )


@_reports("/leases/{job_id:uuid}/renew")
async def renew_lease(call: Call[Services, RenewBody, None]) -> RenewView:
    """Renew a lease.

    The token of the claim proves the lease; a stale one changes nothing.
    """
    return _renewed(call, await call.services.lease.renewal.renew(_holder(call)))


@_reports("/leases/{job_id:uuid}/progress", errors=_PROGRESS_REFUSALS)
async def progress_lease(call: Call[Services, ProgressBody, None]) -> RenewView:
    """Report progress and renew the lease.

    The next attempt gets the last `checkpoint`; the lines of `log` are kept with this one. The
    token of the claim proves the lease; a stale one changes nothing.
    """
    body = call.body
    checkpoint = None if body.checkpoint is msgspec.UNSET else bytes(body.checkpoint)
    if checkpoint is not None and len(checkpoint) > CHECKPOINT_BYTES:
        raise refuse(
            Code.PAYLOAD_TOO_LARGE,
            f"A checkpoint has at most {CHECKPOINT_BYTES} bytes.",
            "checkpoint",
        )
    report = ProgressReport(
        percent=body.percent, note=body.note, checkpoint=checkpoint, log=body.log or ()
    )
    return _renewed(call, await call.services.lease.renewal.report(_holder(call), report))


def _holder(call: Call[Services, Any, None]) -> HeldBy:
    actor, body = call.actor, call.body
    job_id = call.uuid("job_id")
    return HeldBy(actor.tenant_id, job_id, body.token, body.lease_seconds, actor.key_id)


def _renewed(call: Call[Services, Any, None], renewed: Renewed) -> RenewView:
    return RenewView(
        job_id=call.uuid("job_id"),
        cancel_requested=renewed.cancel_requested_at is not None,
        **renewed._asdict(),
    )
