"""What a handler receives, and the outcomes it can return."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Any, Final, Literal
from uuid import UUID

import msgspec


class Delivery(msgspec.Struct, frozen=True, gc=False):
    """One execution of a job, as handed to the handler of its destination's type.

    `job_id` stays the same over all attempts, `token` rises with each claim, `attempt` counts from
    1 and only what was really tried. `destination` is as the job says it: a handler that knows
    names looks them up itself. At most one of `payload` and `payload_ref` is given.
    """

    job_id: UUID
    token: int
    attempt: int
    tenant_id: int
    lane: str
    destination: Mapping[str, Any]
    due_at: datetime
    timeout_seconds: float
    max_attempts: int = 1
    payload: bytes | None = None
    content_type: str | None = None
    payload_ref: str | None = None
    metadata: Mapping[str, Any] | None = None
    traceparent: str | None = None
    # Set for an occurrence of a schedule: which one, and its nominal instant.
    schedule_id: UUID | None = None
    scheduled_for: datetime | None = None
    # What shares this key must arrive in order: the events of one subject.
    order_key: str | None = None
    # Set for a job that was redriven: the failed one it stands for.
    origin_id: UUID | None = None
    # What an earlier attempt recorded, as JSON: this one goes on from there.
    checkpoint: bytes | None = None


RESULT_BYTES: Final = 64 * 1024
"""The most that is kept of a result; more belongs elsewhere, and its address into `result_ref`."""

ResultCode = Literal["result_elsewhere", "answer_not_json", "answer_too_large"]
"""Why what is kept of a completed job is not its result: an address, or the begin of an answer."""


class Completed(msgspec.Struct, frozen=True, gc=False):
    """The work was done. `response` is what is kept: a result, unless `code` says otherwise."""

    http_status: int | None = None
    response: bytes | None = None
    code: ResultCode | None = None


class Failed(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """It was certainly not done: `code` for machines, `error` for people.

    Not retryable means that no further attempt can succeed. `retry_after_seconds` is what the
    destination asked for; the retry comes no sooner.
    """

    code: str
    error: str
    retryable: bool = True
    retry_after_seconds: float | None = None
    http_status: int | None = None
    response: bytes | None = None


class Unknown(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """It is unknown whether the work was done: the policy retries it or waits for a person."""

    code: str
    error: str
    http_status: int | None = None
    response: bytes | None = None


class Running(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The receiver accepted the work and will report later; the lease is kept until then."""

    until_seconds: float


class Throttled(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Nothing was sent: no permit, or the breaker is open. No attempt is counted."""

    seconds: float
    reason: str = "throttled"
    elsewhere: bool = False
    """Whether another node may be able to do it: there it should be tried first."""


Outcome = Completed | Failed | Unknown | Running | Throttled
"""A `match` over these ends in `assert_never`."""

JobHandler = Callable[[Delivery], Awaitable[Outcome]]
"""Runs one delivery. It keeps `timeout_seconds` itself; an exception counts as Unknown."""
