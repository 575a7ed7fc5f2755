"""The timeline of a job or payment: when it was due, who had it, how long it waited."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final, Literal
from uuid import UUID

import msgspec

from postdate.console.render import duration
from postdate.core import any_json
from postdate.core.status import JobStatus, PaymentStatus
from postdate.event.spec.event import Sealed
from postdate.job.spec.view import JobView
from postdate.job.view import AttemptView
from postdate.payment.view.payment import ExecutionView, PaymentEventView
from postdate.payment.view.payment_shape import PaymentView

Tone = Literal["plain", "good", "bad", "wait", "ahead"]
TONES: Final[dict[str, Tone]] = {"COMPLETED": "good", "CANCELLED": "plain"}

SHOWN_ANYWAY: Final = {"job.accepted", "job.claimed", "payment.scheduled", "payment.executing"}
"""Events whose moment the timeline shows from the job, the payment and their attempts."""
SHOWN_BY_ATTEMPTS: Final = {"job.retried", "job.failed", "job.completed", "job.unknown"}
SHOWN_BY_EXECUTIONS: Final = {"payment.completed", "payment.failed", "payment.retried"}
DECISIONS: Final = {
    "job.cancelled",
    "job.cancel_requested",
    "job.rescheduled",
    "job.resolved",
    "payment.cancelled",
    "payment.rescheduled",
    "payment.approved",
}
SHORT_WAIT: Final = timedelta(milliseconds=1)


class TimelineEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a timeline."""

    at: datetime
    title: str
    tone: Tone = "plain"
    detail: str = ""
    code: str | None = None
    error: str | None = None
    reason: str | None = None
    """What the person gave as the reason."""
    actor: str | None = None
    """Who decided it: a key or a token."""
    worker: UUID | None = None
    """Who carried it out: a node, or the key of a worker."""


def job_timeline(
    job: JobView, attempts: Sequence[AttemptView], events: Sequence[Sealed], now: datetime
) -> list[TimelineEntry]:
    """Return the whole story of a job, what lies ahead included."""
    accepted = next((event for event in events if event.type == "job.accepted"), None)
    entries = [
        TimelineEntry(
            at=job.created_at, title="Accepted", actor=accepted.actor if accepted else None
        ),
        *_decisions(events, SHOWN_ANYWAY | (SHOWN_BY_ATTEMPTS if attempts else set())),
        *(entry for attempt in attempts for entry in _attempt(attempt)),
        *_open_job(job, now),
    ]
    first_due = attempts[0].due_at if attempts else job.next_attempt_at
    if not attempts or job.effective_at < attempts[0].due_at:
        entries += _due(job.effective_at, now, ended=job.finished_at is not None)
    if first_due is not None and (attempts or not job.attempt):
        entries += _wait(job.effective_at, first_due, "postponed by {}")
    return sorted(entries, key=lambda entry: entry.at)


def payment_timeline(
    payment: PaymentView,
    executions: Sequence[ExecutionView],
    events: Sequence[PaymentEventView],
    now: datetime,
) -> list[TimelineEntry]:
    """Return the whole story of a payment, what lies ahead included."""
    accepted = next((event for event in events if event.type == "payment.scheduled"), None)
    entries = [
        TimelineEntry(
            at=payment.created_at,
            title="Accepted, and the amount held" if payment.funding == "hold" else "Accepted",
            actor=accepted.actor if accepted else None,
        ),
        *_decisions(events, SHOWN_ANYWAY | (SHOWN_BY_EXECUTIONS if executions else set())),
        *(entry for execution in executions for entry in _execution(execution)),
    ]
    if not executions or payment.status is PaymentStatus.PENDING:
        ended = payment.status is PaymentStatus.CANCELLED
        entries += _due(payment.scheduled_time, now, ended=ended)
    approval = payment.approval
    if approval is not None and approval.decision is None:
        entries.append(TimelineEntry(at=approval.expires_at, title="Approval ends", tone="ahead"))
    return sorted(entries, key=lambda entry: entry.at)


class LastDecision(msgspec.Struct, frozen=True):
    """The last decision of a person about a job or payment, and the reason."""

    type: str
    at: datetime
    actor: str | None
    reason: str | None


def last_decision(events: Sequence[Sealed]) -> LastDecision | None:
    """Return the last cancelling, rescheduling or resolving, with the reason that was given."""
    for event in reversed(events):
        if event.type in DECISIONS:
            return LastDecision(event.type, event.time, event.actor, _reason(event.data))
    return None


def _reason(data: object) -> str | None:
    """Return the reason that an event gives."""
    found = any_json.decode(data) if isinstance(data, str) else data
    reason = found.get("reason") or found.get("note") if isinstance(found, dict) else None
    return reason if isinstance(reason, str) else None


def _due(at: datetime, now: datetime, *, ended: bool) -> Iterator[TimelineEntry]:
    """Tell when it is due; what has ended before that never will be."""
    if at <= now or not ended:
        yield TimelineEntry(at=at, title="Due", tone="ahead" if at > now else "plain")


def _decisions(
    events: Sequence[Sealed] | Sequence[PaymentEventView], shown_elsewhere: set[str]
) -> Iterator[TimelineEntry]:
    for event in events:
        if event.type not in shown_elsewhere:
            title = event.type.partition(".")[2].replace("_", " ").capitalize()
            yield TimelineEntry(
                at=event.time,
                title=title,
                actor=event.actor or "system",
                reason=_reason(event.data),
            )


def _attempt(attempt: AttemptView) -> Iterator[TimelineEntry]:
    number = f"Attempt {attempt.attempt}"
    yield TimelineEntry(at=attempt.due_at, title=f"{number} due")
    yield from _wait(attempt.due_at, attempt.started_at, "waited {} to be claimed")
    yield TimelineEntry(
        at=attempt.started_at, title=f"{number} claimed and started", worker=attempt.worker_id
    )
    http = f", HTTP {attempt.http_status}" if attempt.http_status else ""
    yield TimelineEntry(
        at=attempt.finished_at,
        title=f"{number} {attempt.status}",
        tone=TONES.get(attempt.status, "bad"),
        detail=f"after {duration(attempt.duration_ms)}{http}",
        code=attempt.code,
        error=attempt.error,
        worker=attempt.worker_id,
    )
    if attempt.retry_at is not None:
        yield from _wait(attempt.finished_at, attempt.retry_at, "{} until the next attempt")


def _execution(execution: ExecutionView) -> Iterator[TimelineEntry]:
    number = f"Execution {execution.attempt}"
    yield TimelineEntry(at=execution.scheduled_time, title=f"{number} due")
    begun = execution.started_at or execution.finished_at
    yield from _wait(execution.scheduled_time, begun, "waited {} to be settled")
    yield TimelineEntry(
        at=execution.finished_at,
        title=f"{number} {execution.status}",
        tone=TONES.get(execution.status, "bad"),
        detail=f"execution {execution.execution_id}",
        code=execution.error_code,
        error=execution.error_message,
    )
    if execution.retry_at is not None:
        yield from _wait(execution.finished_at, execution.retry_at, "{} until the next execution")


def _wait(since: datetime, until: datetime, what: str) -> Iterator[TimelineEntry]:
    if until - since > SHORT_WAIT:
        milliseconds = round((until - since).total_seconds() * 1000)
        yield TimelineEntry(at=since, title=what.format(duration(milliseconds)), tone="wait")


def _open_job(job: JobView, now: datetime) -> Iterator[TimelineEntry]:
    """Return the running attempt, or the next one."""
    if job.status is JobStatus.RUNNING:
        number = f"Attempt {job.attempt}"
        if job.claimed_at is not None:
            title = f"{number} claimed and started"
            yield TimelineEntry(at=job.claimed_at, title=title, worker=job.worker_id)
        if job.lease_until is not None:
            title = f"The lease of attempt {job.attempt} ends unless it is renewed"
            yield TimelineEntry(at=job.lease_until, title=title, tone="ahead")
    elif job.next_attempt_at is not None and job.attempt:
        if job.held_back is not None:
            title = f"held back: {job.held_back.destination} is failing"
            yield TimelineEntry(at=now, title=title, tone="wait")
        yield TimelineEntry(
            at=job.next_attempt_at,
            title=f"Attempt {job.attempt + 1} due",
            tone="ahead" if job.next_attempt_at > now else "plain",
        )
    if job.expires_at is not None and job.finished_at is None:
        yield TimelineEntry(at=job.expires_at, title="Expires", tone="ahead")
