"""Dead letters: redrive or purge failed jobs."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Final
from uuid import UUID

import msgspec

from postdate.core.field import Instant
from postdate.core.ids import by_bucket
from postdate.core.shape import shaped
from postdate.core.status import JobStatus
from postdate.database.connection import clock
from postdate.database.connection.database import Connection, Database
from postdate.database.connection.error import KeyTakenError, LockNotAvailableError
from postdate.event.store.event import record_events
from postdate.intake import store as idempotency_store
from postdate.intake.create_once import Remember, forget
from postdate.intake.idempotency import Refused, key_busy, keyed
from postdate.intake.pipeline import MAX_RACES
from postdate.intake.store import IdempotencyKey, IdempotencyRow, KeyScope, key_of
from postdate.job.accept.intake import JobAnswer, JobIntake
from postdate.job.accept.request import AcceptedJob, CheckedJob, JobRequest
from postdate.job.spec.job import DestinationName, JobSpec, UniqueKey, decode_destination
from postdate.job.store import job_list, job_view, prune
from postdate.job.store.job_list import Filter, Position
from postdate.job.store.job_view import JobRow
from postdate.lane.store.lane import LaneDirectory
from postdate.words.error import Code

MAX_REDRIVE: Final = 1000
"""The most jobs of one call; `next_cursor` says where the next one goes on."""

IMPATIENT: Final = "SET LOCAL lock_timeout = '100ms'"
"""While a purge is divided, every part waits for the same lock again."""

ALREADY: Final = "already_redriven"


class DeadLetterFilter(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which failed jobs; the instants are those of their last attempt."""

    lane: str | None = None
    schedule_id: UUID | None = None
    due_after: Instant | None = None
    due_before: Instant | None = None
    code: str | None = None
    unique: UniqueKey | None = None
    destination: DestinationName | None = None


class Redriven(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result for one dead letter: the new job, or why there is none."""

    origin_id: UUID
    job_id: UUID | None = None
    code: str | None = None


class Chosen(msgspec.Struct, frozen=True):
    """Dead letters chosen by a filter, and where the next ones begin."""

    job_ids: list[UUID]
    following: UUID | None


class Pace(msgspec.Struct, frozen=True):
    """How many per second, and how many were redriven before; None means all at once."""

    per_second: float | None = None
    begun: int = 0

    def delay_seconds(self, number: int) -> float | None:
        """Return after how many seconds the n-th is due."""
        return None if self.per_second is None else (self.begun + number) / self.per_second


RedriveResults = Mapping[UUID, JobAnswer | Redriven]
"""The outcome of each dead letter: its new job, or why there is none."""


class DeadLetters:
    """Redrives and purges dead letters; a redrive is a new job that names the failed one."""

    def __init__(self, database: Database, lanes: LaneDirectory, intake: JobIntake) -> None:
        self._database = database
        self._lanes = lanes
        self._intake = intake

    async def choose(
        self, tenant_id: int, wanted: DeadLetterFilter, before: UUID | None, limit: int
    ) -> Chosen:
        """Find dead letters by a filter, the newest first."""
        lanes = None if wanted.lane is None else await self._lanes.of_tenant(tenant_id, wanted.lane)
        own = {"status": JobStatus.FAILED, "lanes": lanes, "text": None, "key": None}
        narrowed = shaped(Filter, wanted, tenant_id=tenant_id, **own)
        after = None if before is None else Position(before)
        async with self._database.read(tenant_id) as connection:
            found = await job_list.page(connection, narrowed, [], after, limit)
        last = found.following
        return Chosen(found.job_ids, None if last is None else last.job_id)

    async def rehearse(self, tenant_id: int, job_ids: Sequence[UUID]) -> list[Redriven]:
        """Return what redriving these jobs would do; one without a code would be redriven."""
        wanted = list(dict.fromkeys(job_ids))
        async with self._database.read(tenant_id) as connection:
            rows = await job_view.find(connection, tenant_id, wanted)
            keys = {job_id: _key(tenant_id, job_id) for job_id in wanted}
            known = await idempotency_store.find(connection, list(keys.values()))
        return [
            _refused(job_id, rows.get(job_id), known.get(keys[job_id]))
            or Redriven(origin_id=job_id)
            for job_id in wanted
        ]

    async def redrive(
        self,
        tenant_id: int,
        job_ids: Sequence[UUID],
        pace: Pace,
        actor: str,
        reason: str | None = None,
        restored: Mapping[UUID, datetime] = MappingProxyType({}),
        *,
        remember: Remember[RedriveResults] = forget,
    ) -> list[Redriven]:
        """Create a new job for each, the oldest first; each job is redriven once.

        Those in `restored` were cancelled, and are due again at their original instant; one that
        has expired meanwhile is not created again.
        """
        wanted = list(dict.fromkeys(job_ids))
        for _ in range(MAX_RACES):
            try:
                async with self._database.write("job.redrive") as connection:
                    results = await self._redrive(
                        connection, tenant_id, wanted, pace, actor, restored
                    )
                    await self._record(connection, tenant_id, results, actor, reason)
                    await remember(connection, results)
            except KeyTakenError:
                continue
            self._intake.announce(
                each for each in results.values() if not isinstance(each, Redriven)
            )
            return [_redriven(job_id, results[job_id]) for job_id in wanted]
        raise key_busy()

    async def _redrive(
        self,
        connection: Connection,
        tenant_id: int,
        job_ids: Sequence[UUID],
        pace: Pace,
        actor: str,
        restored: Mapping[UUID, datetime],
    ) -> dict[UUID, JobAnswer | Redriven]:
        rows = await job_view.find(connection, tenant_id, sorted(job_ids), payload=True)
        refused = {
            job_id: _refused(job_id, rows.get(job_id), restored=job_id in restored)
            for job_id in job_ids
        }
        now = await clock.now(connection)
        for job_id in restored.keys() & rows.keys():
            expires_at = rows[job_id].expires_at
            if expires_at is not None and expires_at <= now:
                refused[job_id] = Redriven(origin_id=job_id, code=Code.CONFLICT)
        results: dict[UUID, JobAnswer | Redriven] = {
            job_id: each for job_id, each in refused.items() if each is not None
        }
        new = sorted(job_id for job_id in job_ids if refused[job_id] is None)
        await self._intake.encryption.prepare(connection, [tenant_id])
        items = [
            await self._checked(
                connection,
                tenant_id,
                rows[job_id],
                actor,
                pace.delay_seconds(number),
                max(now, restored[job_id]) if job_id in restored else None,
            )
            for number, job_id in enumerate(new)
        ]
        made = await self._intake.pipeline.accept_within(connection, items)
        return results | dict(zip(new, made, strict=True))

    async def _record(
        self,
        connection: Connection,
        tenant_id: int,
        results: RedriveResults,
        actor: str,
        reason: str | None,
    ) -> None:
        why = {} if reason is None else {"reason": reason}
        data = {
            origin: {"job_id": result.subject, **why}
            for origin, result in results.items()
            if isinstance(result, AcceptedJob) and not result.replayed
        }
        await record_events(connection, tenant_id, "job.redriven", actor, data)

    async def _checked(
        self,
        connection: Connection,
        tenant_id: int,
        row: JobRow,
        actor: str,
        delay_seconds: float | None,
        run_at: datetime | None,
    ) -> CheckedJob:
        """Build the same job again; the expiry of a failed job does not apply to the new one."""
        request = JobRequest(
            tenant_id=tenant_id,
            spec=JobSpec(
                destination=decode_destination(row.destination),
                delay_seconds=delay_seconds if run_at is None else None,
                run_at=run_at,
                payload_ref=row.payload_ref,
                expires_at=None if run_at is None else row.expires_at,
                lane=row.lane,
                key=row.key,
                priority=row.priority,
                metadata=row.metadata,
                description=row.description,
            ),
            actor=actor,
            schedule_id=row.schedule_id,
            origin_id=row.job_id,
        )
        payload = await self._intake.encryption.open(connection, tenant_id, row.job_id, row.payload)
        metadata = None if row.metadata is None else msgspec.json.encode(row.metadata).decode()
        await self._lanes.load([row.lane_id], reader=connection)
        return CheckedJob(
            request,
            self._lanes.by_id[row.lane_id].key,
            row.destination,
            row.policy,
            payload,
            row.content_type,
            metadata,
            keyed(_key(tenant_id, row.job_id), b""),
        )

    async def purge(
        self, tenant_id: int, job_ids: Sequence[UUID], actor: str, reason: str | None = None
    ) -> list[UUID]:
        """Remove dead letters with their history; return the removed ones."""
        try:
            return await self._purge(tenant_id, job_ids, actor, reason)
        except LockNotAvailableError:
            return await self._purge_around_held(tenant_id, job_ids, actor, reason)

    async def _purge_around_held(
        self, tenant_id: int, job_ids: Sequence[UUID], actor: str, reason: str | None
    ) -> list[UUID]:
        """Remove in halves; a dead letter that another transaction has locked stays."""
        middle = len(job_ids) // 2
        removed: list[UUID] = []
        for half in (job_ids[:middle], job_ids[middle:]):
            if not half:
                continue
            try:
                removed += await self._purge(tenant_id, half, actor, reason, impatient=True)
            except LockNotAvailableError:
                if len(half) > 1:
                    removed += await self._purge_around_held(tenant_id, half, actor, reason)
        return removed

    async def _purge(
        self,
        tenant_id: int,
        job_ids: Sequence[UUID],
        actor: str,
        reason: str | None,
        *,
        impatient: bool = False,
    ) -> list[UUID]:
        removed: list[UUID] = []
        async with self._database.write("job.purge") as connection:
            if impatient:
                await connection.execute(IMPATIENT)
            for bucket, ids in by_bucket(job_ids):
                removed += await prune.failed(connection, bucket, tenant_id, ids)
            why: dict[str, object] = {} if reason is None else {"reason": reason}
            data = dict.fromkeys(removed, why)
            await record_events(connection, tenant_id, "job.purged", actor, data)
        return removed


def _refused(
    job_id: UUID,
    row: JobRow | None,
    known: IdempotencyRow | None = None,
    *,
    restored: bool = False,
) -> Redriven | None:
    if row is None:
        return Redriven(origin_id=job_id, code=Code.NOT_FOUND)
    if known is not None:
        return Redriven(origin_id=job_id, job_id=known.subject, code=ALREADY)
    if row.status != (JobStatus.CANCELLED if restored else JobStatus.FAILED):
        return Redriven(origin_id=job_id, code=Code.CONFLICT)
    return None


def _redriven(job_id: UUID, result: JobAnswer | Redriven) -> Redriven:
    match result:
        case Redriven():
            return result
        case Refused(refusal=refusal):
            return Redriven(origin_id=job_id, code=refusal.code)
        case AcceptedJob():
            code = ALREADY if result.replayed else None
            return Redriven(origin_id=job_id, job_id=result.subject, code=code)


def _key(tenant_id: int, job_id: UUID) -> IdempotencyKey:
    return key_of(tenant_id, KeyScope.REDRIVE, str(job_id))
