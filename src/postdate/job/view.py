"""Jobs: one, a page of them, and the attempts at one."""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final, get_args
from uuid import UUID

import msgspec
from msgspec import UNSET, Raw, UnsetType

from postdate.core.ids import bucket_of
from postdate.core.log import Log
from postdate.core.shape import shaped
from postdate.core.status import JobStatus
from postdate.database.connection.database import Database
from postdate.database.connection.query import Reader
from postdate.destination.spec.trouble import Troubles
from postdate.intake import store as idempotency_store
from postdate.intake.store import KeyScope, key_of
from postdate.job.spec.job import (
    JobDestination,
    Webhook,
    Worker,
    decode_destination,
    decode_policy,
    decode_unique,
)
from postdate.job.spec.outcome import ResultCode
from postdate.job.spec.view import (
    JSON,
    HeldBack,
    JobView,
    JobWaitingFor,
    PayloadError,
    ProgressView,
)
from postdate.job.store import job_list, job_view, progress
from postdate.job.store.job_list import Filter, Position, WaitingCount
from postdate.job.store.job_view import AttemptRow, JobRow
from postdate.lane.store import lane_key, permit
from postdate.lane.store.lane import LaneDirectory
from postdate.secret.payload_encryption import PayloadCipher
from postdate.secret.secret import SecretError, SecretKeyMissingError

log = Log()

MAX_WAITING_COUNT: Final = 200
"""How far one bucket of a lane is counted for what waits at a destination."""

RESULT_ELSEWHERE: Final[ResultCode] = "result_elsewhere"
NO_RESULT: Final = frozenset(get_args(ResultCode))

_lines: Final = msgspec.json.Decoder(list[str])


class AttemptView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One attempt: how it ended, how long it took and how late it began."""

    attempt: int
    status: str
    due_at: datetime
    started_at: datetime
    finished_at: datetime
    duration_ms: int
    lateness_ms: int
    retry_at: datetime | None = None
    http_status: int | None = None
    code: str | None = None
    error: str | None = None
    response: str | None = None
    worker_id: UUID | None = None
    log: list[str] | None = None
    log_dropped: int = 0


class JobCursor(msgspec.Struct, frozen=True):
    """Where the next page begins: an id, and for open jobs the instant too."""

    job_id: UUID
    due_at: str | None = None

    def __post_init__(self) -> None:
        """Refuse a cursor whose instant the database cannot parse."""
        if self.due_at not in {None, "infinity"}:
            datetime.fromisoformat(str(self.due_at))


class JobFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which jobs to list."""

    status: JobStatus | None = None
    lane: str | None = None
    schedule_id: UUID | None = None
    due_after: datetime | None = None
    due_before: datetime | None = None
    unique: str | None = None
    destination: str | None = None
    key: str | None = None
    priority: int | None = None
    code: str | None = None
    """Why it failed: for failed and cancelled jobs."""
    text: str | None = None
    """Part of its description, a key of its metadata, `key=value`, its code or its id's end."""


class JobViews:
    """Read jobs on behalf of a tenant."""

    def __init__(
        self,
        database: Database,
        lanes: LaneDirectory,
        cipher: PayloadCipher | None = None,
        troubles: Troubles | None = None,
    ) -> None:
        self._database = database
        self._cipher = cipher
        self._lanes = lanes
        self._troubles = troubles or Troubles()

    async def find(self, tenant_id: int, job_id: UUID) -> JobView | None:
        """Show one job with its payload."""
        reader = self._database.tenant_reader(tenant_id)
        rows = await job_view.find(reader, tenant_id, [job_id], payload=True)
        if job_id not in rows:
            return None
        row, payload_error = await self._opened(reader, tenant_id, rows[job_id])
        redriven = await _redriven(reader, tenant_id, [row])
        found = self._show(tenant_id, row, redriven)
        found = msgspec.structs.replace(found, payload_error=payload_error)
        if found.status is JobStatus.READY:
            found = await self._with_limit(reader, tenant_id, found)
        return found if row.attempt == 0 else await self._with_progress(reader, tenant_id, found)

    async def _with_limit(self, reader: Reader, tenant_id: int, view: JobView) -> JobView:
        """Add which limit a due job waits for, and how many jobs are before it."""
        rows = await self._lanes.of_tenant(tenant_id, view.lane)
        bucket = bucket_of(view.job_id)
        if view.key is not None and any(lane.per_key is not None for lane in rows):
            wait = await lane_key.waits(reader, tenant_id, bucket, view.job_id)
            if wait is not None and wait.waiting_for is not None:
                return msgspec.structs.replace(
                    view, waiting_for=wait.waiting_for, jobs_before=wait.before
                )
        if not rows or not rows[0].limit.limited:
            return view
        at_limit, at_rate = await permit.waits(reader, rows[0])
        if not (at_limit or at_rate):
            return view
        limit: JobWaitingFor = "lane_max_running" if at_limit else "lane_rate_per_second"
        due = view.next_attempt_at or view.effective_at
        before = await job_view.count_before(reader, rows, due, lane_key.MAX_BEFORE)
        return msgspec.structs.replace(view, waiting_for=limit, jobs_before=before)

    async def _with_progress(self, reader: Reader, tenant_id: int, view: JobView) -> JobView:
        """Add what workers reported while they ran the job."""
        row = await progress.find(reader, tenant_id, view.job_id)
        if row is None:
            return view
        view = msgspec.structs.replace(
            view,
            cancel_requested_at=row.cancel_requested_at,
            cancel_deadline=row.cancel_deadline,
        )
        if row.updated_at is None:
            return view
        logs = await self._logs(reader, tenant_id, view.job_id, [view.attempt])
        lines, dropped = logs.get(view.attempt, (None, 0))
        note = await self._read(reader, tenant_id, view.job_id, row.note)
        shown = ProgressView(
            percent=row.percent,
            note=note,
            updated_at=row.updated_at,
            log=lines,
            log_dropped=dropped,
        )
        return msgspec.structs.replace(view, progress=shown)

    async def _logs(
        self, reader: Reader, tenant_id: int, job_id: UUID, attempts: Sequence[int]
    ) -> dict[int, tuple[list[str], int]]:
        """Read the lines of these attempts, and how many older ones are gone."""
        found = await progress.logs(reader, tenant_id, job_id, attempts)
        shown: dict[int, tuple[list[str], int]] = {}
        for attempt, row in found.items():
            text = await self._read(reader, tenant_id, job_id, row.lines)
            if text is not None:
                shown[attempt] = _lines.decode(text), row.dropped
        return shown

    async def _opened(
        self, reader: Reader, tenant_id: int, row: JobRow
    ) -> tuple[JobRow, PayloadError | None]:
        """Open payload and result; where that fails the rest of the job is shown all the same."""
        if self._cipher is None:
            return row, None
        payload_error: PayloadError | None = None
        payload: bytes | None = None
        result: bytes | None = None
        try:
            payload = await self._cipher.decrypt(reader, tenant_id, row.job_id, row.payload)
            result = await self._cipher.decrypt(reader, tenant_id, row.job_id, row.result)
        except SecretKeyMissingError:
            payload_error = "secret_key_missing"
        except SecretError as error:
            log.warning("job.sealed", job_id=str(row.job_id), error=str(error))
            payload_error = "payload_unreadable"
        return msgspec.structs.replace(row, payload=payload, result=result), payload_error

    async def find_many(self, tenant_id: int, job_ids: Sequence[UUID]) -> list[JobView]:
        """Show those of these jobs that exist, without their payloads, in the order given."""
        rows = await job_view.find(self._database.tenant_reader(tenant_id), tenant_id, job_ids)
        return [self._show(tenant_id, rows[job_id]) for job_id in job_ids if job_id in rows]

    async def page(
        self, tenant_id: int, wanted: JobFilter, after: JobCursor | None, limit: int
    ) -> tuple[list[JobView], JobCursor | None]:
        """List jobs without their payloads.

        A page may have fewer items than requested even if more follow: it examines a bounded
        number.
        """
        narrowed = await self._narrow(tenant_id, wanted)
        position = None if after is None else Position(after.job_id, after.due_at)
        reader = self._database.tenant_reader(tenant_id)
        own = await self._lanes.of_tenant(tenant_id)
        found = await job_list.page(reader, narrowed, own, position, limit, rows=True)
        redriven = await _redriven(reader, tenant_id, found.rows)
        shown = [self._show(tenant_id, row, redriven) for row in found.rows]
        last = found.following
        return shown, None if last is None else JobCursor(last.job_id, last.due_at)

    async def waiting_at(self, tenant_id: int, target: str) -> WaitingCount:
        """Count the jobs that wait for a destination; lower bounds where there are very many."""
        own = await self._lanes.of_tenant(tenant_id)
        reader = self._database.tenant_reader(tenant_id)
        found = await job_list.count_waiting(reader, tenant_id, own, MAX_WAITING_COUNT)
        capped = any(each.capped for each in found.values())
        return found.get(target) or WaitingCount(target, 0, 0, capped)

    def _show(
        self, tenant_id: int, row: JobRow, redriven: Mapping[UUID, UUID | None] | None = None
    ) -> JobView:
        """Show a job, the job that redrove it, and whether its destination holds it back."""
        view = show(row)
        if redriven and row.job_id in redriven:
            return msgspec.structs.replace(view, redriven_as=redriven[row.job_id])
        trouble = self._troubles.of_job(tenant_id, view.destination)
        if trouble is None or not _was_put_off(view):
            return view
        until = max(trouble.held_until, view.next_attempt_at or trouble.held_until)
        return msgspec.structs.replace(view, held_back=HeldBack(trouble.label, until))

    async def _narrow(self, tenant_id: int, wanted: JobFilter) -> Filter:
        lanes = None
        if wanted.lane is not None or wanted.key is not None or wanted.priority is not None:
            own = await self._lanes.of_tenant(tenant_id, wanted.lane)
            lanes = job_list.narrowed(own, wanted.key, wanted.priority)
        return shaped(Filter, wanted, tenant_id=tenant_id, lanes=lanes)

    async def attempts(
        self, tenant_id: int, job_id: UUID, after: int, limit: int
    ) -> list[AttemptView] | None:
        """List the attempts at a job; None when there is no such job."""
        reader = self._database.tenant_reader(tenant_id)
        if not await job_view.find(reader, tenant_id, [job_id]):
            return None
        rows = await job_view.attempts(reader, tenant_id, job_id, after, limit)
        logs = await self._logs(reader, tenant_id, job_id, [row.attempt for row in rows])
        return [
            _attempt(
                row,
                await self._read(reader, tenant_id, job_id, row.response),
                *logs.get(row.attempt, (None, 0)),
            )
            for row in rows
        ]

    async def _read(
        self, reader: Reader, tenant_id: int, job_id: UUID, stored: bytes | None
    ) -> str | None:
        """Open what was kept of a job; None if it cannot be opened here."""
        if self._cipher is not None:
            try:
                stored = await self._cipher.decrypt(reader, tenant_id, job_id, stored)
            except SecretError:
                return None
        return None if stored is None else stored.decode(errors="replace")


async def _redriven(
    reader: Reader, tenant_id: int, rows: Sequence[JobRow]
) -> dict[UUID, UUID | None]:
    """Find the new jobs that failed jobs were redriven as."""
    failed = [row.job_id for row in rows if row.status == JobStatus.FAILED]
    keys = {key_of(tenant_id, KeyScope.REDRIVE, str(job_id)): job_id for job_id in failed}
    kept = await idempotency_store.find(reader, list(keys))
    return {keys[key]: one.subject for key, one in kept.items()}


def _attempt(
    row: AttemptRow, response: str | None, log: list[str] | None, log_dropped: int
) -> AttemptView:
    return shaped(
        AttemptView,
        row,
        duration_ms=_milliseconds(row.started_at, row.finished_at),
        lateness_ms=_milliseconds(row.due_at, row.started_at),
        response=response,
        log=log,
        log_dropped=log_dropped,
    )


def _milliseconds(since: datetime, until: datetime) -> int:
    return round((until - since).total_seconds() * 1000)


def show(row: JobRow) -> JobView:
    """Show a stored job as a client sees it."""
    given = decode_policy(row.policy)
    destination = decode_destination(row.destination)
    status = JobStatus(row.status)
    waiting = status in {JobStatus.PENDING, JobStatus.READY}
    as_json = row.payload is not None and row.content_type == JSON
    return shaped(
        JobView,
        row,
        status=status,
        destination=destination,
        next_attempt_at=row.timer_due_at if waiting else None,
        waiting_for=_waiting_for(row),
        jobs_before=None,
        held_back=None,
        progress=None,
        cancel_requested_at=None,
        cancel_deadline=None,
        claimed_at=row.claimed_at if status is JobStatus.RUNNING else None,
        lease_until=row.timer_due_at if status is JobStatus.RUNNING else None,
        lateness_ms=_lateness(row),
        retry=given.retry,
        timeout_seconds=given.timeout_seconds,
        result=_result(row, destination),
        result_ref=_result_ref(row),
        code=None if row.code == RESULT_ELSEWHERE else row.code,
        payload=Raw(row.payload) if as_json and row.payload is not None else UNSET,
        payload_base64=None if as_json else _base64(row.payload),
        payload_error=None,
        redriven_as=None,
        unique=decode_unique(row.unique_by),
        deduplicated=False,
    )


def _result(row: JobRow, destination: JobDestination) -> Raw | UnsetType:
    """Return what the worker reported, as it stands, or the answer that was asked for."""
    kept = isinstance(destination, Worker) or (
        isinstance(destination, Webhook) and destination.keep_answer
    )
    if row.result is None or not kept or row.code in NO_RESULT:
        return UNSET
    return Raw(row.result)


def _result_ref(row: JobRow) -> str | None:
    """Return where the worker has put the result."""
    if row.result is None or row.code != RESULT_ELSEWHERE:
        return None
    return row.result.decode(errors="replace")


def _waiting_for(row: JobRow) -> JobWaitingFor | None:
    if row.status == JobStatus.UNKNOWN:
        return "person"
    tried = row.status == JobStatus.PENDING and row.code is not None
    return "retry" if tried else None


def _was_put_off(view: JobView) -> bool:
    """Return whether a job could have run by now: it is due, or its instant was moved."""
    if view.status is JobStatus.READY:
        return True
    due = view.next_attempt_at
    return view.status is JobStatus.PENDING and due is not None and due > view.effective_at


def _lateness(row: JobRow) -> int | None:
    """Return how long after its first due instant the last attempt started, retries included."""
    if row.outcome_due_at is None or row.started_at is None:
        return None
    first_due_at = row.effective_at if row.attempt > 1 else row.outcome_due_at
    return _milliseconds(first_due_at, row.started_at)


def _base64(payload: bytes | None) -> str | None:
    return None if payload is None else b64encode(payload).decode()
