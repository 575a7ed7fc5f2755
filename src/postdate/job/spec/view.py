"""A job as a client sees it."""

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

import msgspec
from msgspec import UNSET, Raw, UnsetType

from postdate.core.status import JobStatus
from postdate.job.spec.job import JobDestination, Retry, Unique

JSON: str = "application/json"

PayloadError = Literal["secret_key_missing", "payload_unreadable"]
"""Why an encrypted payload is not shown."""


JobWaitingFor = Literal[
    "retry",
    "person",
    "key_max_running",
    "key_rate_per_second",
    "lane_max_running",
    "lane_rate_per_second",
]
"""What a job waits for, besides its instant: an attempt, a person, or a limit of key or lane."""


class HeldBack(msgspec.Struct, frozen=True):
    """The destination is failing: the job is not tried before this instant."""

    destination: str
    until: datetime


class ProgressView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How far the worker of a job has come, in its own words.

    `log` has the last lines of the latest attempt, `log_dropped` counts older ones that are gone.
    """

    percent: float | None = None
    note: str | None = None
    updated_at: datetime
    log: list[str] | None = None
    log_dropped: int = 0


class JobView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A job and its status.

    `due_at` is the instant asked for, `effective_at` the one after spreading. `attempt` is the
    number of the last attempt begun. `code`, `error`, `http_status` and `worker_id` are those of
    the last attempt that has ended, also while the job waits for the next one or for a person;
    `worker_id` is the node that made it, or stands for the key of the worker that did. `in_doubt`
    is true for a job that failed or was cancelled after an attempt without a clear answer: the work
    may have been done. `result` is what the worker of a completed job returned, or the answer of a
    webhook whose destination says `keep_answer`; `result_ref` is where a worker has put a larger
    one. `progress` is what a worker reported last. A list leaves payload, result and progress out.
    `payload_error` says why encrypted ones are not shown: the node that answered lacks the key,
    which another may have, or what is stored cannot be opened. `waiting_for` names a limit, and
    `jobs_before` says how many wait before it, where one due job is shown by itself.
    """

    job_id: UUID
    status: JobStatus
    lane: str
    priority: int
    destination: JobDestination
    due_at: datetime
    effective_at: datetime
    created_at: datetime
    key: str | None = None
    attempt: int = 0
    revision: int = 0
    next_attempt_at: datetime | None = None
    waiting_for: JobWaitingFor | None = None
    jobs_before: int | None = None
    held_back: HeldBack | None = None
    claimed_at: datetime | None = None
    lease_until: datetime | None = None
    progress: ProgressView | None = None
    cancel_requested_at: datetime | None = None
    cancel_deadline: datetime | None = None
    finished_at: datetime | None = None
    lateness_ms: int | None = None
    code: str | None = None
    error: str | None = None
    in_doubt: bool = False
    http_status: int | None = None
    worker_id: UUID | None = None
    expires_at: datetime | None = None
    retry: Retry | None = None
    timeout_seconds: float | None = None
    spread_seconds: int | None = None
    result: Raw | UnsetType = UNSET
    result_ref: str | None = None
    payload: Raw | UnsetType = UNSET
    payload_base64: str | None = None
    payload_error: PayloadError | None = None
    content_type: str | None = None
    payload_ref: str | None = None
    metadata: dict[str, Any] | None = None
    description: str | None = None
    schedule_id: UUID | None = None
    origin_id: UUID | None = None
    redriven_as: UUID | None = None
    unique: Unique | None = None
    deduplicated: bool = False
