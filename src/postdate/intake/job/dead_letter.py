"""Dead letters: send failed jobs on their way again, or remove them."""

from collections.abc import Mapping, Sequence
from typing import Final
from uuid import UUID

import msgspec

from postdate.intake.accept.idempotency import RaceError, in_flight
from postdate.intake.job.accept import JobIntake
from postdate.intake.job.batch import Accepted, Ask, Result
from postdate.intake.job.events import note
from postdate.intake.job.validation import Draft
from postdate.model.error import Code, Refusal
from postdate.model.ids import bucket_of
from postdate.model.job.job import JobSpec, When, decode_destination
from postdate.model.status import JobStatus
from postdate.store.connection.database import Connection, Database
from postdate.store.connection.error import LockNotAvailableError
from postdate.store.idempotency import idempotency as idempotency_store
from postdate.store.idempotency.idempotency import REDRIVE_SCOPE, Kept, Key, key_of
from postdate.store.job import job_list, job_view, prune
from postdate.store.job.job_list import Filter, Position
from postdate.store.job.job_view import JobRow
from postdate.store.timer.lane import LaneDirectory

REDRIVE_MOST: Final = 1000
"""The most jobs of one call; `next_cursor` says where the next one goes on."""

IMPATIENT: Final = "SET LOCAL lock_timeout = '100ms'"
"""While a purge is divided, every part waits for the same lock again."""

ALREADY: Final = "already_redriven"
CREATED: Final = 201


class DeadLetterFilter(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which failed jobs; the instants are those of their last attempt."""

    lane: str | None = None
    schedule_id: UUID | None = None
    due_after: When | None = None
    due_before: When | None = None


class Redriven(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of one dead letter: the new job, or why there is none."""

    origin_id: UUID
    job_id: UUID | None = None
    code: str | None = None


class Chosen(msgspec.Struct, frozen=True):
    """Dead letters chosen by a filter, and where the next ones begin."""

    job_ids: list[UUID]
    following: UUID | None


class Pace(msgspec.Struct, frozen=True):
    """How many a second, and how many went before; None means all at once."""

    per_second: float | None = None
    begun: int = 0

    def after(self, ask: Ask, number: int) -> Ask:
        """Give the n-th its own instant."""
        if self.per_second is None:
            return ask
        spec = msgspec.structs.replace(
            ask.spec, delay_seconds=(self.begun + number) / self.per_second
        )
        return msgspec.structs.replace(ask, spec=spec)


class DeadLetters:
    """Redrive and purge; what failed stays failed, a redrive is a new job that names it."""

    def __init__(self, database: Database, lanes: LaneDirectory, intake: JobIntake) -> None:
        self._database = database
        self._lanes = lanes
        self._intake = intake

    async def choose(
        self, tenant_id: int, wanted: DeadLetterFilter, before: UUID | None, limit: int
    ) -> Chosen:
        """Find dead letters by a filter, the newest first."""
        lane = wanted.lane
        narrowed = Filter(
            tenant_id=tenant_id,
            status=JobStatus.FAILED,
            lanes=None if lane is None else self._lanes.of_tenant(tenant_id, lane),
            schedule_id=wanted.schedule_id,
            due_after=wanted.due_after,
            due_before=wanted.due_before,
        )
        after = None if before is None else Position(before)
        async with self._database.read(tenant_id) as connection:
            found = await job_list.page(connection, narrowed, [], after, limit)
        last = found.following
        return Chosen(found.job_ids, None if last is None else last.job_id)

    async def rehearse(self, tenant_id: int, job_ids: Sequence[UUID]) -> list[Redriven]:
        """Say what redriving these would come to; one without a code would be redriven."""
        wanted = list(dict.fromkeys(job_ids))
        async with self._database.read(tenant_id) as connection:
            rows = await job_view.find(connection, tenant_id, wanted)
            keys = {job_id: key_of(tenant_id, REDRIVE_SCOPE, str(job_id)) for job_id in wanted}
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
    ) -> list[Redriven]:
        """Make a new job of each, in the order of their age; one job is redriven once."""
        wanted = list(dict.fromkeys(job_ids))
        for _ in range(2):
            try:
                async with self._database.write() as connection:
                    results = await self._redrive(connection, tenant_id, wanted, pace, actor)
                    await self._note(connection, tenant_id, results, actor, reason)
            except RaceError:
                continue
            self._intake.tell([one for one in results.values() if not isinstance(one, Redriven)])
            return [_told(job_id, results[job_id]) for job_id in wanted]
        raise in_flight()

    async def _redrive(
        self,
        connection: Connection,
        tenant_id: int,
        job_ids: Sequence[UUID],
        pace: Pace,
        actor: str,
    ) -> dict[UUID, Result | Redriven]:
        rows = await job_view.find(connection, tenant_id, sorted(job_ids), payload=True)
        keys = {job_id: key_of(tenant_id, REDRIVE_SCOPE, str(job_id)) for job_id in job_ids}
        known = await idempotency_store.find(connection, list(keys.values()))
        results: dict[UUID, Result | Redriven] = {}
        for job_id in job_ids:
            refused = _refused(job_id, rows.get(job_id), known.get(keys[job_id]))
            if refused is not None:
                results[job_id] = refused
        new = sorted(job_id for job_id in job_ids if job_id not in results)
        asks = [_ask(tenant_id, rows[job_id], actor) for job_id in new]
        paced = [pace.after(ask, number) for number, ask in enumerate(asks)]
        drafts = [
            self._draft(tenant_id, await self._opened(connection, tenant_id, rows[job_id]))
            for job_id in new
        ]
        made = await self._intake.write(connection, paced, drafts)
        results |= dict(zip(new, made, strict=True))
        done = {
            job_id: result.job.job_id
            for job_id, result in zip(new, made, strict=True)
            if isinstance(result, Accepted)
        }
        if not await idempotency_store.insert(connection, [_kept(keys[i], done[i]) for i in done]):
            raise RaceError
        return results

    async def _note(
        self,
        connection: Connection,
        tenant_id: int,
        results: Mapping[UUID, Result | Redriven],
        actor: str,
        reason: str | None,
    ) -> None:
        why = {} if reason is None else {"reason": reason}
        data = {
            origin: {"job_id": result.job.job_id, **why}
            for origin, result in results.items()
            if isinstance(result, Accepted)
        }
        await note(connection, self._database, tenant_id, data, "job.redriven", actor)

    async def _opened(self, connection: Connection, tenant_id: int, row: JobRow) -> JobRow:
        seals = self._intake.seals
        opened = await seals.open(connection, tenant_id, row.job_id, row.payload)
        return msgspec.structs.replace(row, payload=opened)

    def _draft(self, tenant_id: int, row: JobRow) -> Draft:
        lane = self._lanes.by_id[row.lane_id]
        metadata = None if row.metadata is None else msgspec.json.encode(row.metadata).decode()
        return Draft(
            (tenant_id, row.lane, lane.kind),
            row.destination,
            row.policy,
            row.payload,
            row.content_type,
            metadata,
        )

    async def purge(
        self, tenant_id: int, job_ids: Sequence[UUID], actor: str, reason: str | None = None
    ) -> list[UUID]:
        """Remove dead letters with all that belongs to them; give those that were removed."""
        try:
            return await self._purge(tenant_id, job_ids, actor, reason)
        except LockNotAvailableError:
            return await self._purge_around_held(tenant_id, job_ids, actor, reason)

    async def _purge_around_held(
        self, tenant_id: int, job_ids: Sequence[UUID], actor: str, reason: str | None
    ) -> list[UUID]:
        """Remove one half after the other; what somebody else holds stays a dead letter."""
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
        buckets: dict[int, list[UUID]] = {}
        for job_id in sorted(job_ids):
            buckets.setdefault(bucket_of(job_id), []).append(job_id)
        removed: list[UUID] = []
        async with self._database.write() as connection:
            if impatient:
                await connection.execute(IMPATIENT)
            for bucket in sorted(buckets):
                removed += await prune.failed(connection, bucket, tenant_id, buckets[bucket])
            why: dict[str, object] = {} if reason is None else {"reason": reason}
            data = dict.fromkeys(removed, why)
            await note(connection, self._database, tenant_id, data, "job.purged", actor)
        return removed


def _refused(job_id: UUID, row: JobRow | None, known: Kept | None) -> Redriven | None:
    if row is None:
        return Redriven(origin_id=job_id, code=Code.NOT_FOUND)
    if known is not None:
        return Redriven(origin_id=job_id, job_id=known.subject, code=ALREADY)
    if row.status != JobStatus.FAILED:
        return Redriven(origin_id=job_id, code=Code.CONFLICT)
    return None


def _told(job_id: UUID, result: Result | Redriven) -> Redriven:
    match result:
        case Redriven():
            return result
        case Accepted(job=job):
            return Redriven(origin_id=job_id, job_id=job.job_id)
        case Refusal(code=code):
            return Redriven(origin_id=job_id, code=code)
        case other:
            raise TypeError(f"a redrive has no key of its own: {other}")


def _ask(tenant_id: int, row: JobRow, actor: str) -> Ask:
    """Ask for the same again, due now; an expiry that has passed does not count again."""
    spec = JobSpec(
        destination=decode_destination(row.destination),
        payload_ref=row.payload_ref,
        lane=row.lane,
        metadata=row.metadata,
        description=row.description,
    )
    return Ask(
        tenant_id=tenant_id,
        spec=spec,
        actor=actor,
        schedule_id=row.schedule_id,
        origin_id=row.job_id,
    )


def _kept(key: Key, job_id: UUID) -> Kept:
    return Kept(*key, subject=job_id, status=CREATED, request=b"{}", response=b"{}")
