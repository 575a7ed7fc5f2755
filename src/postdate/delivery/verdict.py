"""What an exchange means: for the job (an outcome) and for its destination (its health)."""

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final, NamedTuple

import msgspec

from postdate.core import any_json
from postdate.delivery.breaker import Health
from postdate.delivery.http_exchange import ExchangeResult, InDoubt, NotSent, ReceiverAnswer
from postdate.job.spec.outcome import (
    RESULT_BYTES,
    Completed,
    Failed,
    Outcome,
    Running,
    Throttled,
    Unknown,
)

MAX_RETRY_AFTER_SECONDS: Final = 24 * 3600.0
"""A destination may ask for no more patience than this."""

BUSY_SECONDS: Final = 1.0

ACCEPTED: Final = 202
GONE: Final = 410
TOO_MANY: Final = 429
UNAVAILABLE: Final = 503

# Statements about this very request: the same bytes will meet the same answer.
REFUSALS: Final = frozenset({400, 405, 406, GONE, 411, 413, 414, 415, 422, 431, 501, 505})

# Said by something in between that lost sight of the request; it may have been done.
IN_BETWEEN: Final = frozenset({502, 504})


class DeliveryVerdict(NamedTuple):
    """The outcome of the attempt, and what it says about the destination."""

    outcome: Outcome
    health: Health
    busy_seconds: float = 0.0


def judge(
    result: ExchangeResult, *, kept_bytes: int, ack_seconds: float, keep_answer: bool = False
) -> DeliveryVerdict:
    """Decide what an exchange means; `keep_answer` asks for the answer as the job's result."""
    match result:
        case NotSent(code, error, final, ours):
            health = Health.SILENT if ours else Health.DOWN
            if code == "lookup_busy":
                return DeliveryVerdict(Throttled(seconds=BUSY_SECONDS, reason=code), health)
            return DeliveryVerdict(Failed(code=code, error=error, retryable=not final), health)
        case InDoubt(code, error):
            return DeliveryVerdict(Unknown(code=code, error=error), Health.DOWN)
        case ReceiverAnswer():
            verdict = _answered(result, result.body[:kept_bytes] or None, ack_seconds)
            if keep_answer and isinstance(verdict.outcome, Completed):
                return verdict._replace(outcome=_with_answer(verdict.outcome, result.body))
            return verdict


def _answered(answer: ReceiverAnswer, kept: bytes | None, ack_seconds: float) -> DeliveryVerdict:
    status = answer.status
    if answer.broken is None and 200 <= status < 300:  # noqa: PLR2004 - success
        if status == ACCEPTED and answer.header(b"postdate-ack").lower() == "later":
            return DeliveryVerdict(Running(until_seconds=ack_seconds), Health.UP)
        return DeliveryVerdict(Completed(status, kept), Health.UP)
    if status < 300:  # noqa: PLR2004 - it began as success
        error = f"the answer {status} broke off: {answer.broken or 'it is no answer'}"
        return DeliveryVerdict(
            Unknown(code="answer_broken", error=error, http_status=status, response=kept),
            Health.DOWN,
        )
    if status in IN_BETWEEN:
        error = f"the gateway answered {status}: whether the call was served is not known"
        return DeliveryVerdict(
            Unknown(code=f"http_{status}", error=error, http_status=status, response=kept),
            Health.DOWN,
        )
    return _failed(answer, kept)


def _with_answer(outcome: Completed, body: bytes) -> Completed:
    """Keep a whole answer as the result, or say why there is none."""
    if len(body) > RESULT_BYTES:
        return msgspec.structs.replace(outcome, code="answer_too_large")
    if not body:
        return outcome
    try:
        any_json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return msgspec.structs.replace(outcome, code="answer_not_json")
    return msgspec.structs.replace(outcome, response=body)


def _failed(answer: ReceiverAnswer, kept: bytes | None) -> DeliveryVerdict:
    status, wait = answer.status, None
    health, busy = Health.UP if status < 500 else Health.DOWN, 0.0  # noqa: PLR2004
    error = f"the destination answered {status}"
    if 300 <= status < 400:  # noqa: PLR2004 - a redirect
        error += ": redirects are never followed, give the final URL"
    if status in {TOO_MANY, UNAVAILABLE}:
        wait = retry_after(answer)
        if status == TOO_MANY or wait is not None:
            health, busy = Health.BUSY, wait or BUSY_SECONDS
    outcome = Failed(
        code="destination_gone" if status == GONE else f"http_{status}",
        error=error,
        retryable=status not in REFUSALS,
        retry_after_seconds=wait,
        http_status=status,
        response=kept,
    )
    return DeliveryVerdict(outcome, health, busy)


def retry_after(answer: ReceiverAnswer) -> float | None:
    """Parse Retry-After, in seconds or as a date; ignore invalid values."""
    text = answer.header(b"retry-after").strip()
    if text.isascii() and text.isdigit():
        return min(float(text[:12]), MAX_RETRY_AFTER_SECONDS)
    wanted = _date(text)
    if wanted is None:
        return None
    # The sender's own clock, where it tells it, wrote both dates.
    now = _date(answer.header(b"date")) or datetime.now(UTC)
    return max(0.0, min((wanted - now).total_seconds(), MAX_RETRY_AFTER_SECONDS))


def _date(text: str) -> datetime | None:
    try:
        found = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found
