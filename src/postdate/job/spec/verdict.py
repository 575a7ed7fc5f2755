"""Decide what follows from an attempt: a pure function; the holder of the lease records it."""

from datetime import datetime
from typing import Any, Final, Literal, assert_never
from uuid import UUID

import msgspec

from postdate.job.spec.outcome import Completed, Failed, Outcome, Running, Throttled, Unknown
from postdate.job.spec.retry import Policy, next_attempt_at

WORKER_LOST: Final = "worker_lost"
EXPIRED: Final = "expired"
TOO_OLD: Final = "too_old"
JOB_MISSING: Final = "job_missing"

LAST_CALL_SECONDS: Final = 1.0
"""How long before its deadline a job that is held back is tried once more."""

ERROR_CHARACTERS: Final = 2000
"""The most that is kept of an error's text."""


class Facts(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The facts for a decision on a claimed job. `attempt` is the number of this attempt."""

    job_id: UUID
    attempt: int
    first_due_at: datetime
    expires_at: datetime | None
    policy: Policy
    # The lease before this one ran out: it is unknown how far its holder came.
    lost: bool = False


class End(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The job ends. Without `tried` the claim decided it: nothing ran, so no attempt is counted."""

    status: Literal["COMPLETED", "FAILED"]
    code: str | None = None
    error: str | None = None
    http_status: int | None = None
    response: bytes | None = None
    tried: bool = True
    # The attempt had no clear answer: it is given up, but it may have taken effect.
    unknown: bool = False


class Move(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The job is due again after some seconds, or (None) waits for a person.

    Without `tried` nothing was attempted, and nothing is written down but the new instant.
    """

    seconds: float | None
    tried: Literal["FAILED", "UNKNOWN"] | None = None
    code: str | None = None
    error: str | None = None
    http_status: int | None = None
    response: bytes | None = None


class Keep(msgspec.Struct, frozen=True, gc=False):
    """The receiver will report later; the lease is kept for some seconds."""

    seconds: float


Verdict = End | Move | Keep


DONE: Final = End(status="COMPLETED")
"""The verdict on a plain success: one value, so that the usual case is known by identity."""


def judge(facts: Facts, now: datetime) -> End | Move | None:
    """Decide at the claim, before anything runs: None lets it run."""
    policy = facts.policy
    if facts.lost and policy.on_unknown == "hold":
        return Move(
            seconds=None, code=WORKER_LOST, error="The worker was lost while it ran the job."
        )
    if facts.attempt > policy.max_attempts:
        error = f"No attempt is left: the last of {facts.attempt - 1} lost its worker."
        return _untried(WORKER_LOST, error)
    if facts.expires_at is not None and facts.expires_at <= now:
        return _untried(EXPIRED, "It expired before it could run.")
    if (now - facts.first_due_at).total_seconds() > policy.max_age_seconds:
        return _untried(TOO_OLD, "It is older than max_age_seconds.")
    return None


def _untried(code: str, error: str) -> End:
    return End(status="FAILED", code=code, error=error, tried=False)


def complete(outcome: Completed) -> End:
    """Decide what follows from success: whatever the policy says, it is over."""
    if outcome.http_status is None and outcome.response is None:
        return DONE
    return End(
        status="COMPLETED",
        code=outcome.code,
        http_status=outcome.http_status,
        response=outcome.response,
    )


def decide(facts: Facts, outcome: Outcome, now: datetime) -> Verdict:
    """Decide what follows from an outcome."""
    match outcome:
        case Completed():
            return complete(outcome)
        case Failed():
            wait = _wait(facts, now, outcome.retry_after_seconds) if outcome.retryable else None
            return _fail(outcome) if wait is None else _again(outcome, wait, "FAILED")
        case Unknown():
            if facts.policy.on_unknown == "hold":
                return _again(outcome, None, "UNKNOWN")
            wait = _wait(facts, now, None)
            return _fail(outcome) if wait is None else _again(outcome, wait, "UNKNOWN")
        case Running(until_seconds=seconds):
            return Keep(seconds)
        case Throttled():
            return _held_back(facts, outcome, now)
        case other:
            assert_never(other)


def _held_back(facts: Facts, outcome: Throttled, now: datetime) -> End | Move:
    """Postpone a job, but not beyond its deadline: it gets a last try shortly before."""
    left = facts.policy.max_age_seconds - (now - facts.first_due_at).total_seconds()
    if facts.expires_at is not None:
        left = min(left, (facts.expires_at - now).total_seconds())
    if outcome.seconds < left:
        return Move(seconds=outcome.seconds)
    if left > LAST_CALL_SECONDS:
        return Move(seconds=left - LAST_CALL_SECONDS)
    error = f"It was held back until its deadline: {plain(outcome.reason)}."
    return _untried(EXPIRED, error)


def _wait(facts: Facts, now: datetime, retry_after_seconds: float | None) -> float | None:
    at = next_attempt_at(
        facts.policy,
        job_id=facts.job_id,
        attempt=facts.attempt,
        first_due_at=facts.first_due_at,
        finished_at=now,
        expires_at=facts.expires_at,
        retry_after_seconds=retry_after_seconds,
    )
    return None if at is None else (at - now).total_seconds()


def plain(text: str) -> str:
    """Make text from outside storable: no NUL, no half characters, not endless."""
    return text.replace("\0", "").encode("utf-8", "replace").decode()[:ERROR_CHARACTERS]


def _fail(outcome: Failed | Unknown) -> End:
    return End(
        status="FAILED",
        code=plain(outcome.code),
        error=plain(outcome.error),
        http_status=outcome.http_status,
        response=outcome.response,
        unknown=isinstance(outcome, Unknown),
    )


def _again(
    outcome: Failed | Unknown, wait: float | None, tried: Literal["FAILED", "UNKNOWN"]
) -> Move:
    return Move(
        seconds=wait,
        tried=tried,
        code=plain(outcome.code),
        error=plain(outcome.error),
        http_status=outcome.http_status,
        response=outcome.response,
    )


def end_event_type(verdict: End) -> str:
    """Return the event type of an end."""
    return "job.completed" if verdict.status == "COMPLETED" else "job.failed"


def event_type(verdict: End | Move) -> str | None:
    """Return the event type of a verdict; None if nothing was tried."""
    match verdict:
        case End():
            return end_event_type(verdict)
        case Move(seconds=None):
            return "job.unknown"
        case Move(tried=None):
            return None
        case Move():
            return "job.retried"
        case other:
            assert_never(other)


def event_data(verdict: End | Move, attempt: int) -> dict[str, Any] | None:
    """Return the data of the event; None for a plain success at the first attempt."""
    if verdict is DONE and attempt == 1:
        return None
    data: dict[str, Any] = {"attempt": attempt} if attempt > 1 or verdict.code else {}
    for name in ("http_status", "code", "error"):
        if (value := getattr(verdict, name)) is not None:
            data[name] = value
    return data or None
