"""Change an open job: time, payload, policy or priority; run it now, cancel it, or resolve it."""

from collections.abc import Iterable
from datetime import datetime
from typing import Final, Literal, NamedTuple
from uuid import UUID

import msgspec
from msgspec import UNSET, Raw, UnsetType

from postdate.core.field import Instant
from postdate.core.ids import bucket_of
from postdate.core.setting.setting import Settings
from postdate.core.status import JobStatus
from postdate.database.connection.database import Connection, Database
from postdate.event.store.event import record_events
from postdate.job.accept import validation
from postdate.job.accept.intake import OnAccept
from postdate.job.accept.payload_encryption import PayloadEncryption
from postdate.job.spec.job import (
    ContentType,
    DelaySeconds,
    JobPolicy,
    JobSpec,
    PayloadRef,
    Retry,
    Timeout,
    decode_destination,
    decode_policy,
    encode_policy,
)
from postdate.job.store import job_cancel, job_change, job_view
from postdate.job.store.job_cancel import CANCEL_SECONDS, CancelOrder, CancelResult, result_of
from postdate.job.store.job_change import JobEnd, JobMove, OpenJob, Revision
from postdate.job.store.job_view import JobRow
from postdate.lane.spec import Priority
from postdate.lane.store import lane as lane_store
from postdate.lane.store.lane import LaneDirectory
from postdate.secret.payload_encryption import PayloadCipher
from postdate.timer import lost_timer
from postdate.timer.lost_timer import LostTimer
from postdate.words.error import Code, RefusedError, accepted, not_found, refuse

CancelAnswer = Literal[
    "cancel_requested",
    "cancelled_before_claim",
    "cancelled_after_failure",
    "cancelled_in_doubt",
    "stopped_in_flight",
]
Resolution = Literal["completed", "failed", "retry"]


class CancelRequest(NamedTuple):
    """The worker of a running job was asked to stop; it may go on until the deadline."""

    deadline: datetime


class JobPatch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """New values for a job that is not running; absent fields stay as they are.

    `retry`, `timeout_seconds` and `expires_at` given as null go back to the tenant's settings.
    """

    run_at: Instant | None = None
    delay_seconds: DelaySeconds | None = None
    payload: Raw | UnsetType = UNSET
    payload_base64: str | None = None
    content_type: ContentType | None = None
    payload_ref: PayloadRef | None = None
    retry: Retry | UnsetType | None = UNSET
    timeout_seconds: Timeout | UnsetType | None = UNSET
    expires_at: Instant | UnsetType | None = UNSET
    priority: Priority | None = None

    @property
    def has_time(self) -> bool:
        """Return whether the instant changes."""
        return self.run_at is not None or self.delay_seconds is not None

    @property
    def has_payload(self) -> bool:
        """Return whether the payload changes."""
        given = (self.payload_base64, self.payload_ref, self.content_type)
        return self.payload is not UNSET or any(part is not None for part in given)


_NOTHING: Final = JobPatch()


class JobChanges:
    """Changes single jobs, each in one transaction that locks the job's timer."""

    def __init__(
        self,
        database: Database,
        settings: Settings,
        on_accept: Iterable[OnAccept] = (),
        cipher: PayloadCipher | None = None,
        lanes: LaneDirectory | None = None,
    ) -> None:
        self._lanes = lanes or LaneDirectory(database)
        self._database = database
        self._encryption = PayloadEncryption(settings, cipher)
        self._settings = settings
        self._on_accept = on_accept

    def _hint(self, lane_id: int, job: OpenJob, due_at: datetime) -> None:
        """After the commit, send a hint that a job may be due sooner than workers expect."""
        for hook in self._on_accept:
            hook(lane_id, (due_at - job.now).total_seconds())

    async def cancel(
        self, tenant_id: int, job_id: UUID, actor: str, seconds: float | None = None
    ) -> CancelResult | CancelRequest:
        """Cancel a job; ask the worker of a running one to stop within some seconds.

        None follows the tenant's settings; with 0 the worker loses its lease now.
        """
        if seconds is None:
            seconds = self._settings.number(CANCEL_SECONDS, tenant_id)
        async with self._database.write("job.cancel") as connection:
            job = await _lock(connection, tenant_id, job_id)
            if job is None:
                row = await _found(connection, tenant_id, job_id)
                if not row.is_lost:
                    return _cancelled_already(row)
                job = await _recovered(connection, _lost(tenant_id, job_id))
            if job.status is JobStatus.UNKNOWN:
                raise _conflict("The job is in doubt: resolve it instead.", job.status)
            order = CancelOrder(actor, seconds)
            done = await job_cancel.cancel(connection, tenant_id, [job], order)
        return CancelRequest(done.deadlines[job_id]) if done.deadlines else result_of(job)

    async def run_now(self, tenant_id: int, job_id: UUID, actor: str) -> None:
        """Make a pending job due now."""
        async with self._database.write("job.run_now") as connection:
            job = await self._waiting(connection, tenant_id, job_id)
            if job.status is JobStatus.READY:
                return
            await job_change.move(connection, [JobMove(job_id, job.now, job.revision)])
            data = {job_id: {"due_at": job.now, "reason": "run_now"}}
            await record_events(connection, tenant_id, "job.rescheduled", actor, data)
        self._hint(job.lane_id, job, job.now)

    async def patch(self, tenant_id: int, job_id: UUID, patch: JobPatch, actor: str) -> None:
        """Change time, payload, policy or priority before the next execution."""
        changed = [name for name in patch.__struct_fields__ if _differs(patch, name)]
        if not changed:
            raise refuse(Code.INVALID_FIELD, "Give at least one field to change.")
        async with self._database.write("job.patch") as connection:
            job = await self._waiting(connection, tenant_id, job_id)
            row = await _found(connection, tenant_id, job_id)
            lane_id = await self._lane_id(connection, row, patch.priority)
            revision = self._revise(tenant_id, job, row, patch)._replace(lane_id=lane_id)
            due = revision.effective_at if patch.has_time else job.due_at or job.now
            if lane_id != job.lane_id:
                due = max(due, job.now)  # workers scan no earlier instants there
            await self._encryption.prepare(connection, [tenant_id])
            encrypted = self._encryption.payload(tenant_id, job_id, revision.payload)
            await job_change.revise(connection, tenant_id, [revision._replace(payload=encrypted)])
            await job_change.move(connection, [JobMove(job_id, due, revision.revision, lane_id)])
            data = {job_id: {"fields": changed, "due_at": revision.due_at}}
            kind = "job.rescheduled" if patch.has_time else "job.changed"
            await record_events(connection, tenant_id, kind, actor, data)
        await self._lanes.load([lane_id])
        self._hint(lane_id, job, due)

    def _revise(self, tenant_id: int, job: OpenJob, row: JobRow, patch: JobPatch) -> Revision:
        spec = JobSpec(
            destination=decode_destination(row.destination),
            run_at=patch.run_at,
            delay_seconds=patch.delay_seconds,
            payload=patch.payload,
            payload_base64=patch.payload_base64,
            content_type=patch.content_type,
            payload_ref=patch.payload_ref,
            spread_seconds=row.spread_seconds,
            expires_at=row.expires_at if patch.expires_at is UNSET else patch.expires_at,
        )
        limits = validation.window(self._settings, tenant_id)
        if patch.has_time:
            seed = row.schedule_id or row.job_id
            due, effective = accepted(validation.times(spec, job.now, limits, seed))
        else:
            due, effective = row.due_at, row.effective_at
            _allow_expiry(spec, job, job.now + limits.horizon)
        payload, content_type = accepted(validation.payload_of(spec))
        return Revision(
            job_id=row.job_id,
            revision=job.revision + 1,
            due_at=due,
            effective_at=effective,
            expires_at=spec.expires_at,
            policy=_policy(row.policy, patch),
            lane_id=row.lane_id,
            has_payload=patch.has_payload,
            payload=payload,
            content_type=content_type,
            payload_ref=patch.payload_ref,
        )

    async def _lane_id(self, connection: Connection, row: JobRow, priority: int | None) -> int:
        """Return the row of its lane in which a job waits, with this priority or its own."""
        if priority is None or priority == row.priority:
            return row.lane_id
        await self._lanes.load([row.lane_id], reader=connection)
        wanted = self._lanes.by_id[row.lane_id].key._replace(priority=priority)
        known = self._lanes.by_key.get(wanted)
        if known is None:
            made = await lane_store.ensure(connection, [wanted])
            known = next(lane for lane in made if lane.key == wanted)
        return known.lane_id

    async def resolve(
        self, tenant_id: int, job_id: UUID, resolution: Resolution, actor: str
    ) -> None:
        """Resolve a job in doubt: completed, failed, or retried."""
        async with self._database.write("job.resolve") as connection:
            job = await _lock(connection, tenant_id, job_id)
            if job is None:
                raise _ended(tenant_id, await _found(connection, tenant_id, job_id))
            if job.status is not JobStatus.UNKNOWN:
                raise _conflict("Only a job in doubt can be resolved.", job.status)
            if resolution == "retry":
                await job_change.move(connection, [JobMove(job_id, job.now, job.revision)])
            else:
                due = job.ready_at or job.now
                status = JobStatus.COMPLETED if resolution == "completed" else JobStatus.FAILED
                ended = JobEnd(job_id, job.attempt, status, due, None, "resolved")
                await job_change.end(connection, tenant_id, [ended])
            data = {job_id: {"outcome": resolution}}
            await record_events(connection, tenant_id, "job.resolved", actor, data)
        if resolution == "retry":
            self._hint(job.lane_id, job, job.now)

    async def _waiting(self, connection: Connection, tenant_id: int, job_id: UUID) -> OpenJob:
        """Lock a job that is not running; refuse one whose worker may still be alive."""
        job = await _lock(connection, tenant_id, job_id)
        if job is None:
            raise _ended(tenant_id, await _found(connection, tenant_id, job_id))
        if job.claimed_at is not None or job.status is JobStatus.UNKNOWN:
            raise _conflict("The job is running or in doubt.", job.status)
        return job


def _policy(stored: str | None, patch: JobPatch) -> str | None:
    given = decode_policy(stored)
    retry = given.retry if patch.retry is UNSET else patch.retry
    timeout = given.timeout_seconds if patch.timeout_seconds is UNSET else patch.timeout_seconds
    return encode_policy(JobPolicy(retry=retry, timeout_seconds=timeout))


def _allow_expiry(spec: JobSpec, job: OpenJob, horizon: datetime) -> None:
    wrong = validation.check_expiry(spec.expires_at, job.due_at or job.now, horizon)
    if wrong is not None:
        raise RefusedError(wrong)


def _differs(patch: JobPatch, name: str) -> bool:
    return getattr(patch, name) is not getattr(_NOTHING, name)


async def _lock(connection: Connection, tenant_id: int, job_id: UUID) -> OpenJob | None:
    found = await job_change.lock(connection, tenant_id, bucket_of(job_id), [job_id])
    return found[0] if found else None


async def _found(connection: Connection, tenant_id: int, job_id: UUID) -> JobRow:
    rows = await job_view.find(connection, tenant_id, [job_id])
    if job_id not in rows:
        raise not_found("job", job_id)
    return rows[job_id]


async def _recovered(connection: Connection, lost: LostTimer) -> OpenJob:
    """Put a lost timer back and lock it, in order to end the job."""
    await lost_timer.put_back(connection, lost)
    job = await _lock(connection, lost.tenant_id, lost.subject)
    if job is None:
        raise lost_timer.is_lost(lost)
    return job


def _lost(tenant_id: int, job_id: UUID) -> LostTimer:
    return LostTimer(tenant_id, job_id, "job")


def _cancelled_already(row: JobRow) -> CancelResult:
    if row.status != JobStatus.CANCELLED:
        raise _conflict("The job has already ended.", row.status)
    result: CancelResult = msgspec.convert(row.code, CancelResult)
    return result


def _ended(tenant_id: int, row: JobRow) -> RefusedError:
    """Make the refusal for a job without a timer."""
    if row.is_lost:
        return lost_timer.is_lost(_lost(tenant_id, row.job_id))
    return _conflict("The job has ended.", row.status)


def _conflict(detail: str, status: str) -> RefusedError:
    return refuse(Code.CONFLICT, detail, current_status=str(status))
