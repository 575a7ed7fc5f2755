"""Change many jobs by a filter: bounded batches, and a dry run that counts them."""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Final, NamedTuple
from uuid import UUID

import msgspec

from postdate.core.ids import bucket_of, by_bucket
from postdate.core.setting.setting import Settings
from postdate.core.shape import shaped
from postdate.core.status import JobStatus
from postdate.database.connection import clock
from postdate.database.connection.database import Connection, Database
from postdate.event.store.event import record_events
from postdate.intake.create_once import Remember, forget
from postdate.job.accept import validation
from postdate.job.spec.bulk import BulkFilter, BulkOutcome, JobInstant
from postdate.job.spec.job import JobSpec, Worker
from postdate.job.store import job_cancel, job_change, job_list, job_view
from postdate.job.store.job_cancel import CANCEL_SECONDS, CancelOrder
from postdate.job.store.job_change import JobMove, OpenJob, Revision
from postdate.job.store.job_list import Filter
from postdate.job.store.job_view import JobRow
from postdate.lane.store.lane import LaneDirectory
from postdate.words.error import Code, Refusal, accepted, refuse

MAX_BULK: Final = 10_000
"""The most jobs of one call; `more` says that some are left."""

BATCH: Final = 500
"""The most jobs of one transaction."""

MAX_PAGES: Final = 200

WAIT_SECONDS: Final = 3.0
"""How long a call retries jobs that are locked elsewhere."""

PAUSE_SECONDS: Final = 0.1

WAITING: Final = (JobStatus.PENDING, JobStatus.READY)
CANCELLABLE: Final = (*WAITING, JobStatus.RUNNING)


class Found(msgspec.Struct, frozen=True):
    """Jobs that match, with their status, and whether there are more than one call takes."""

    jobs: dict[UUID, JobStatus]
    more: bool


class ChangedCount(NamedTuple):
    """How many jobs were changed, and how many not, because other transactions had locked them.

    `asked` of the changed ones run on until their workers stop.
    """

    jobs: int = 0
    held: int = 0
    asked: int = 0


class JobMoved(NamedTuple):
    """A job that was moved: when it was due before, and the revision that it has now."""

    job_id: UUID
    before: datetime
    revision: int


ChangeLocked = Callable[[Connection, Sequence[OpenJob]], Awaitable[int]]
"""Change jobs that are locked, and say how many it changed."""


class JobBulk:
    """Cancel and reschedule by a filter."""

    def __init__(self, database: Database, lanes: LaneDirectory, settings: Settings) -> None:
        self._database = database
        self._lanes = lanes
        self._settings = settings

    async def cancel(
        self,
        tenant_id: int,
        wanted: BulkFilter,
        actor: str,
        reason: str | None = None,
        *,
        seconds: float | None = None,
        dry_run: bool,
    ) -> BulkOutcome:
        """Cancel matching jobs; stop a RUNNING job only if the filter says RUNNING."""
        found = await self.find(tenant_id, wanted, CANCELLABLE)
        changed = ChangedCount()
        if not dry_run:
            changed = await self.cancel_these(tenant_id, found.jobs, actor, reason, seconds=seconds)
        return _outcome(found, changed, dry_run=dry_run)

    async def find(self, tenant_id: int, wanted: BulkFilter, allowed: Sequence[JobStatus]) -> Found:
        """Find matching jobs, up to the limit of one call."""
        jobs, more = await self._gather(tenant_id, wanted, _statuses(wanted, allowed))
        return Found(jobs, more)

    async def cancel_these(
        self,
        tenant_id: int,
        found: Mapping[UUID, JobStatus],
        actor: str,
        reason: str | None = None,
        remember: Remember[Sequence[OpenJob]] = forget,
        *,
        seconds: float | None = None,
    ) -> ChangedCount:
        """Cancel exactly these jobs, unless they have changed since; return how many.

        The workers of running ones are asked to stop within some seconds, as by a single cancel;
        `remember` gets the jobs that have ended.
        """
        statuses = _unchanged_statuses(found)
        if seconds is None:
            seconds = self._settings.number(CANCEL_SECONDS, tenant_id)
        order = CancelOrder(actor, seconds, _with_reason(reason))
        asked = 0

        async def cancel(connection: Connection, locked: Sequence[OpenJob]) -> int:
            nonlocal asked
            jobs = [job for job in locked if job.status in statuses]
            done = await job_cancel.cancel(connection, tenant_id, jobs, order)
            await remember(connection, done.ended)
            asked += done.asked
            return done.changed

        changed = await self._change(tenant_id, found, cancel)
        return changed._replace(asked=asked)

    async def reschedule(
        self,
        tenant_id: int,
        wanted: BulkFilter,
        to: JobInstant,
        actor: str,
        reason: str | None = None,
        *,
        dry_run: bool,
    ) -> BulkOutcome:
        """Move matching jobs to another instant."""
        _statuses(wanted, WAITING)
        await self._check_target(tenant_id, wanted, to)
        found = await self.find(tenant_id, wanted, WAITING)
        changed = ChangedCount()
        if not dry_run:
            changed = await self.move_these(tenant_id, found.jobs, to, actor, reason)
        return _outcome(found, changed, dry_run=dry_run)

    async def move_these(
        self,
        tenant_id: int,
        found: Mapping[UUID, JobStatus],
        to: JobInstant,
        actor: str,
        reason: str | None = None,
        *,
        remember: Remember[Sequence[JobMoved]] = forget,
        back: Mapping[UUID, JobMoved] = MappingProxyType({}),
    ) -> ChangedCount:
        """Move exactly these jobs to another instant, unless they have started; return how many.

        Those in `back` go back to where they were, or are due now where that has passed, unless
        they were changed since.
        """

        def target(job: OpenJob) -> JobInstant:
            if job.job_id not in back:
                return to
            own = back[job.job_id].before
            return JobInstant(run_at=own) if own > job.now else JobInstant(delay_seconds=0)

        def unchanged(job: OpenJob) -> bool:
            return job.job_id not in back or back[job.job_id].revision == job.revision

        async def move(connection: Connection, locked: Sequence[OpenJob]) -> int:
            wanted = [job for job in locked if unchanged(job)]
            moved = await self._reschedule(connection, tenant_id, wanted, target)
            why = _with_reason(reason)
            data = {one.job_id: {"due_at": one.due_at, **why} for one in moved}
            await record_events(connection, tenant_id, "job.rescheduled", actor, data)
            before = {job.job_id: job.due_at or job.now for job in wanted}
            await remember(
                connection,
                [JobMoved(one.job_id, before[one.job_id], one.revision) for one in moved],
            )
            return len(moved)

        return await self._change(tenant_id, found, move)

    async def _change(
        self, tenant_id: int, found: Iterable[UUID], change: ChangeLocked
    ) -> ChangedCount:
        """Change the jobs that are free, then retry the locked ones for a short time."""
        until, left, count = time.monotonic() + WAIT_SECONDS, list(found), 0
        while True:
            held: list[UUID] = []
            for batch in _batches(left):
                async with self._database.write("job.change_these") as connection:
                    locked, busy = await _lock(connection, tenant_id, batch)
                    done = await change(connection, locked)
                held += busy
                count += done
            if not held or time.monotonic() >= until:
                return ChangedCount(count, len(held))
            left = held
            await asyncio.sleep(PAUSE_SECONDS)

    async def check_instant(self, tenant_id: int, to: JobInstant) -> datetime:
        """Refuse an instant that is not in the future; return the earliest that a job may get."""
        if (to.run_at is None) == (to.delay_seconds is None):
            raise refuse(Code.INVALID_FIELD, "Give either `run_at` or `delay_seconds`.", "run_at")
        async with self._database.read(tenant_id) as connection:
            now = await clock.now(connection)
        first = accepted(self._times(tenant_id, to, None, now))
        if first <= now:
            raise refuse(Code.DUE_IN_PAST, "The new instant must be in the future.", "run_at")
        return first

    async def _check_target(self, tenant_id: int, wanted: BulkFilter, to: JobInstant) -> None:
        """Refuse an instant inside the filter's own range: a repeated call would never end."""
        first = await self.check_instant(tenant_id, to)
        last = first + timedelta(seconds=to.spread_seconds or 0)
        leaves = (
            wanted.status is JobStatus.READY
            or (wanted.due_before is not None and first > wanted.due_before)
            or (wanted.due_after is not None and last < wanted.due_after)
        )
        if not leaves:
            detail = "The new instant must be outside the filter's `due_after` and `due_before`."
            raise refuse(Code.INVALID_FIELD, detail, "filter.due_before")

    def _times(
        self, tenant_id: int, to: JobInstant, row: JobRow | None, now: datetime
    ) -> datetime | Refusal:
        spec = JobSpec(destination=Worker(), run_at=to.run_at, delay_seconds=to.delay_seconds)
        due = validation.due_at(spec, now, validation.window(self._settings, tenant_id))
        if row is None or isinstance(due, Refusal):
            return due
        return validation.effective_at(due, to.spread_seconds, row.job_id, now)

    async def _reschedule(
        self,
        connection: Connection,
        tenant_id: int,
        locked: Sequence[OpenJob],
        target: Callable[[OpenJob], JobInstant],
    ) -> list[Revision]:
        jobs = [job for job in locked if job.claimed_at is None and job.status in WAITING]
        rows = await job_view.find(connection, tenant_id, [job.job_id for job in jobs])
        # A timer whose job is gone is left for `prove` to name.
        known = [job for job in jobs if job.job_id in rows]
        revisions = [self._revision(tenant_id, job, rows[job.job_id], target(job)) for job in known]
        kept = [one for one in revisions if one is not None]
        moves = [JobMove(one.job_id, one.effective_at, one.revision) for one in kept]
        await job_change.revise(connection, tenant_id, kept)
        await job_change.move(connection, moves)
        return kept

    def _revision(
        self, tenant_id: int, job: OpenJob, row: JobRow, to: JobInstant
    ) -> Revision | None:
        """Move one job, unless it would expire before its new instant."""
        due = accepted(self._times(tenant_id, to, None, job.now))
        effective = accepted(self._times(tenant_id, to, row, job.now))
        if row.expires_at is not None and row.expires_at <= effective:
            return None
        return Revision(
            row.job_id,
            job.revision + 1,
            due,
            effective,
            row.expires_at,
            row.policy,
            row.lane_id,
        )

    async def _gather(
        self, tenant_id: int, wanted: BulkFilter, statuses: Sequence[JobStatus]
    ) -> tuple[dict[UUID, JobStatus], bool]:
        """Find matching jobs, page by page, up to the limit of one call."""
        found: dict[UUID, JobStatus] = {}
        own = await self._lanes.of_tenant(tenant_id)
        pages = 0
        for status in statuses:
            narrowed = await self._narrow(tenant_id, wanted, status)
            after = None
            while True:
                limit = min(BATCH, MAX_BULK - len(found))
                pages += 1
                if limit <= 0 or pages > MAX_PAGES:
                    return found, True
                async with self._database.read(tenant_id) as connection:
                    page = await job_list.page(connection, narrowed, own, after, limit)
                found |= dict.fromkeys(page.job_ids, status)
                after = page.following
                if after is None:
                    break
        return found, False

    async def _narrow(self, tenant_id: int, wanted: BulkFilter, status: JobStatus) -> Filter:
        lanes = None
        if wanted.lane is not None or wanted.key is not None or wanted.priority is not None:
            found = await self._lanes.of_tenant(tenant_id, wanted.lane)
            lanes = job_list.narrowed(found, wanted.key, wanted.priority)
        own = {"status": status, "lanes": lanes, "code": None, "text": None}
        return shaped(Filter, wanted, tenant_id=tenant_id, **own)


def _statuses(wanted: BulkFilter, allowed: Sequence[JobStatus]) -> tuple[JobStatus, ...]:
    if wanted == BulkFilter():
        raise refuse(Code.INVALID_FIELD, "The filter needs at least one field.", "filter")
    if wanted.status is None:
        return WAITING
    if wanted.status not in allowed:
        names = ", ".join(allowed)
        raise refuse(Code.INVALID_FIELD, f"The status is one of {names}.", "filter.status")
    return (wanted.status,)


def _unchanged_statuses(found: Mapping[UUID, JobStatus]) -> frozenset[JobStatus]:
    """Return the statuses in which a job counts as unchanged: waiting is waiting, due or not."""
    shown = frozenset(found.values())
    return shown | frozenset(WAITING) if shown & frozenset(WAITING) else shown


def _with_reason(reason: str | None) -> dict[str, object]:
    return {"bulk": True} if reason is None else {"bulk": True, "reason": reason}


def _batches(found: Iterable[UUID]) -> Iterator[list[UUID]]:
    """Split into transactions, in the order in which timers are locked."""
    ordered = sorted(found, key=lambda job_id: (bucket_of(job_id), job_id))
    for start in range(0, len(ordered), BATCH):
        yield ordered[start : start + BATCH]


async def _lock(
    connection: Connection, tenant_id: int, batch: Sequence[UUID]
) -> tuple[list[OpenJob], list[UUID]]:
    locked: list[OpenJob] = []
    held: list[UUID] = []
    for bucket, ids in by_bucket(batch):
        free, busy = await job_change.lock_free(connection, tenant_id, bucket, ids)
        locked += free
        held += busy
    return locked, held


def _outcome(found: Found, changed: ChangedCount, *, dry_run: bool) -> BulkOutcome:
    matched = {str(status): count for status, count in Counter(found.jobs.values()).items()}
    more = found.more or changed.held > 0
    return BulkOutcome(
        dry_run=dry_run, matched=matched, changed=changed.jobs, more=more, asked=changed.asked
    )
