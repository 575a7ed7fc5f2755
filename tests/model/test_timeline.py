"""The timelines of jobs and payments: in order, with waits, who and what lies ahead."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import msgspec

from postdate.core.status import JobStatus, PaymentStatus
from postdate.event.page.timeline import TimelineEntry, job_timeline, payment_timeline
from postdate.event.spec.event import Sealed
from postdate.job.spec.job import Worker
from postdate.job.spec.view import JobView
from postdate.job.view import AttemptView
from postdate.payment.view.payment import ExecutionView, PaymentEventView
from postdate.payment.view.payment_shape import ApprovalView, PaymentView

T0 = datetime(2026, 11, 17, 3, 0, tzinfo=UTC)
NODE = UUID(int=9)


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


JOB = JobView(
    job_id=UUID(int=1), status=JobStatus.PENDING, lane="mail", priority=5, destination=Worker(),
    due_at=at(10), effective_at=at(10), created_at=T0, next_attempt_at=at(10),
)  # fmt: skip
PAYMENT = PaymentView(
    payment_id=UUID(int=2), from_account_id="a", to_account_id="b", amount=5, scheduled_time=at(60),
    status=PaymentStatus.PENDING, funding="hold", created_at=T0,
)  # fmt: skip


def event(kind: str, seconds: float, actor: str | None = "ann") -> Sealed:
    return Sealed(1, UUID(int=3), UUID(int=1), kind, at(seconds), actor, None)


def attempt(number: int, due: float, start: float, end: float, **values: object) -> AttemptView:
    plain = AttemptView(
        attempt=number, status="FAILED", due_at=at(due), started_at=at(start), finished_at=at(end),
        duration_ms=round((end - start) * 1000), lateness_ms=0, worker_id=NODE,
    )  # fmt: skip
    return msgspec.structs.replace(plain, **values)


def told(entries: list[TimelineEntry]) -> list[tuple[float, str]]:
    return [((entry.at - T0).total_seconds(), entry.title) for entry in entries]


def test_a_job_that_waits_names_who_asked_and_when_it_is_due() -> None:
    events = [event("job.accepted", 0), event("job.rescheduled", 2, None)]
    found = job_timeline(JOB, [], events, at(5))
    assert told(found) == [(0, "Accepted"), (2, "Rescheduled"), (10, "Due")]
    assert [entry.actor for entry in found] == ["ann", "system", None]
    assert found[-1].tone == "ahead"


def test_attempts_are_told_with_their_waits_and_who_made_them() -> None:
    job = msgspec.structs.replace(
        JOB, attempt=1, next_attempt_at=at(45), expires_at=at(99), status=JobStatus.PENDING
    )
    failed = attempt(1, 10, 12.5, 15, retry_at=at(45), code="http_503", http_status=503)
    found = job_timeline(job, [failed], [event("job.retried", 15)], at(20))
    assert told(found) == [
        (0, "Accepted"),
        (10, "Attempt 1 due"),
        (10, "waited 2.5 s to be claimed"),
        (12.5, "Attempt 1 claimed and started"),
        (15, "Attempt 1 FAILED"),
        (15, "30.0 s until the next attempt"),
        (45, "Attempt 2 due"),
        (99, "Expires"),
    ]
    ended = found[4]
    assert (ended.tone, ended.code, ended.worker) == ("bad", "http_503", NODE)
    assert ended.detail == "after 2.5 s, HTTP 503"
    assert [entry.tone for entry in found[-2:]] == ["ahead", "ahead"]


def test_a_job_that_runs_says_since_when_and_until_when() -> None:
    job = msgspec.structs.replace(
        JOB, status=JobStatus.RUNNING, attempt=1, claimed_at=at(11), lease_until=at(71),
        worker_id=NODE, next_attempt_at=None,
    )  # fmt: skip
    found = job_timeline(job, [], [], at(20))
    assert told(found)[1:3] == [(10, "Due"), (11, "Attempt 1 claimed and started")]
    assert found[-1].tone == "ahead"
    assert found[-1].at == at(71)


def test_a_payment_is_told_from_its_hold_to_its_execution() -> None:
    done = msgspec.structs.replace(PAYMENT, status=PaymentStatus.COMPLETED)
    execution = ExecutionView(
        execution_id="x-1", attempt=1, status="COMPLETED", scheduled_time=at(60),
        started_at=at(60.2), finished_at=at(60.3),
    )  # fmt: skip
    told_by = PaymentEventView(
        id=UUID(int=4), type="payment.scheduled", time=T0, actor="ann", data=None
    )
    again = msgspec.structs.replace(told_by, type="payment.completed", time=at(60.3))
    found = payment_timeline(done, [execution], [told_by, again], at(100))
    assert told(found) == [
        (0, "Accepted, and the amount held"),
        (60, "Execution 1 due"),
        (60, "waited 200 ms to be settled"),
        (60.3, "Execution 1 COMPLETED"),
    ]
    assert (found[0].actor, found[-1].tone) == ("ann", "good")


def test_a_payment_that_waits_for_approval_says_until_when() -> None:
    approval = ApprovalView(required=True, requested_by="ann", requested_at=T0, expires_at=at(500))
    waiting = msgspec.structs.replace(PAYMENT, approval=approval)
    assert told(payment_timeline(waiting, [], [], at(1)))[1:] == [
        (60, "Due"),
        (500, "Approval ends"),
    ]


def test_a_beginning_that_was_recorded_as_an_event_is_told_once() -> None:
    failed = attempt(1, 10, 12.5, 15)
    verbose = job_timeline(JOB, [failed], [event("job.claimed", 12.6)], at(20))
    assert told(verbose) == told(job_timeline(JOB, [failed], [], at(20)))
    begun = PaymentEventView(
        id=UUID(int=4), type="payment.executing", time=at(60), actor="system", data=None
    )
    assert told(payment_timeline(PAYMENT, [], [begun], at(61))) == told(
        payment_timeline(PAYMENT, [], [], at(61))
    )
