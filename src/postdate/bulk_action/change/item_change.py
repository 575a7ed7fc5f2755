"""What a bulk action does to a piece of its items, each outcome recorded with the change."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Protocol
from uuid import UUID

import msgspec

from postdate.bulk_action.spec import DONE, BulkOperation
from postdate.bulk_action.store import BulkItem, ItemOutcome
from postdate.core.identity import Identity
from postdate.core.status import JobStatus
from postdate.database.connection.database import Connection
from postdate.job.accept.request import AcceptedJob
from postdate.job.change.bulk import WAITING, JobBulk, JobMoved
from postdate.job.change.dead_letter import DeadLetters, Pace, RedriveResults
from postdate.job.spec.bulk import JobInstant
from postdate.job.store.job_change import OpenJob
from postdate.job.view import JobViews
from postdate.schedule.change.schedule import Schedules
from postdate.schedule.store.schedule import ScheduleRow
from postdate.words.error import Code, RefusedError

LOCKED: Final = "locked by another transaction"
ASKED: Final = "its worker is asked to stop"
"""A running job ends when its worker obeys, at its deadline at the latest."""

Mark = Callable[[Connection, Mapping[UUID, ItemOutcome]], Awaitable[None]]
"""Record outcomes in the transaction that has changed these items."""

_PASSING: Final = frozenset({Code.TENANT_HALTED, Code.OVERLOADED, Code.IDEMPOTENCY_IN_FLIGHT})
"""Refusals that say nothing about the item: the same request may be granted later."""


class PieceWork(msgspec.Struct, frozen=True):
    """A piece of a bulk action: for whom it is done, on which terms, and to what."""

    actor: Identity
    terms: Mapping[str, Any]
    items: Sequence[BulkItem]
    mark: Mark

    @property
    def ids(self) -> list[UUID]:
        """Return the ids of the items."""
        return [each.item_id for each in self.items]

    @property
    def jobs(self) -> dict[UUID, JobStatus]:
        """Return the jobs with the status in which they were shown."""
        return {each.item_id: JobStatus(each.seen) for each in self.items}


class ItemChange(Protocol):
    """Changes a piece of items; what was changed is marked in the same transaction."""

    async def __call__(self, work: PieceWork) -> Mapping[UUID, str]:
        """Change the items, and say why some were left as they are."""


def passing(error: RefusedError) -> bool:
    """Return whether a refusal is over by itself."""
    return error.refusal.code in _PASSING


class ItemChanges:
    """The change that each kind of bulk action makes."""

    def __init__(
        self, jobs: JobBulk, views: JobViews, dead_letters: DeadLetters, schedules: Schedules
    ) -> None:
        self._jobs = jobs
        self._views = views
        self._dead_letters = dead_letters
        self._schedules = schedules

    def of(self, operation: BulkOperation) -> ItemChange:
        """Return the change of a kind of bulk action."""
        changes: Mapping[BulkOperation, ItemChange] = {
            "cancel_jobs": self._cancel,
            "reschedule_jobs": self._reschedule,
            "redrive_dead_letters": self._redrive,
            "pause_schedule": self._pause,
            "resume_schedule": self._resume,
        }
        return changes[operation]

    async def _cancel(self, work: PieceWork) -> Mapping[UUID, str]:
        changed: list[UUID] = []

        async def remember(connection: Connection, jobs: Sequence[OpenJob]) -> None:
            await work.mark(connection, {job.job_id: ItemOutcome(DONE) for job in jobs})
            changed.extend(job.job_id for job in jobs)

        actor, terms = work.actor, work.terms
        done = await self._jobs.cancel_these(
            actor.tenant_id,
            work.jobs,
            actor.key_id,
            terms.get("reason"),
            remember,
            seconds=terms.get("deadline_seconds"),
        )
        usual = frozenset({JobStatus.PENDING, JobStatus.READY, JobStatus.RUNNING})
        return await self._left(work, changed, usual, LOCKED if done.held else ASKED)

    async def _reschedule(self, work: PieceWork) -> Mapping[UUID, str]:
        changed: list[UUID] = []

        async def remember(connection: Connection, moved: Sequence[JobMoved]) -> None:
            await work.mark(connection, {each.job_id: ItemOutcome(DONE) for each in moved})
            changed.extend(each.job_id for each in moved)

        actor, reason = work.actor, work.terms.get("reason")
        to = msgspec.convert(work.terms["to"], JobInstant)
        await self._jobs.move_these(
            actor.tenant_id, work.jobs, to, actor.key_id, reason, remember=remember
        )
        return await self._left(
            work, changed, frozenset(WAITING), "locked, or it would expire before"
        )

    async def _left(
        self, work: PieceWork, changed: Sequence[UUID], usual: frozenset[JobStatus], rest: str
    ) -> Mapping[UUID, str]:
        """Say why jobs were left alone: how they stand now, or else the reason that is left."""
        left = set(work.ids).difference(changed)
        if not left:
            return {}
        now = await self._views.find_many(work.actor.tenant_id, sorted(left))
        stand = {job.job_id: f"{job.status} by now" for job in now if job.status not in usual}
        gone = left.difference(job.job_id for job in now)
        return {each: "gone" if each in gone else stand.get(each, rest) for each in left}

    async def _redrive(self, work: PieceWork) -> Mapping[UUID, str]:
        """Redrive failed jobs at one pace over all pieces."""

        async def remember(connection: Connection, results: RedriveResults) -> None:
            await work.mark(
                connection,
                {
                    origin: ItemOutcome(DONE, made.subject)
                    for origin, made in results.items()
                    if isinstance(made, AcceptedJob) and not made.replayed
                },
            )

        actor, terms = work.actor, work.terms
        done = await self._dead_letters.redrive(
            actor.tenant_id,
            work.ids,
            Pace(terms.get("per_second"), work.items[0].position),
            actor.key_id,
            terms.get("reason"),
            remember=remember,
        )
        return {each.origin_id: each.code for each in done if each.code is not None}

    async def _pause(self, work: PieceWork) -> Mapping[UUID, str]:
        async def pause(schedule_id: UUID, before: Any) -> None:
            note = work.terms.get("note")
            await self._schedules.pause(work.actor, schedule_id, note, before)

        return await _each(work, pause, lambda row: row.paused, "paused by now")

    async def _resume(self, work: PieceWork) -> Mapping[UUID, str]:
        async def resume(schedule_id: UUID, before: Any) -> None:
            await self._schedules.resume(work.actor, schedule_id, before)

        def goes_on(row: ScheduleRow) -> bool:
            return not row.paused and row.set_aside_at is None

        return await _each(work, resume, goes_on, "active by now")


async def _each(
    work: PieceWork,
    change: Callable[[UUID, Any], Awaitable[None]],
    is_so: Callable[[ScheduleRow], bool],
    already: str,
) -> Mapping[UUID, str]:
    """Change one schedule after the other, each in a transaction of its own."""
    left: dict[UUID, str] = {}
    for schedule_id in work.ids:

        async def before(connection: Connection, row: ScheduleRow, one: UUID = schedule_id) -> bool:
            if is_so(row):
                left[one] = already
                return False
            await work.mark(connection, {one: ItemOutcome(DONE)})
            return True

        try:
            await change(schedule_id, before)
        except RefusedError as error:
            if passing(error):
                raise
            left[schedule_id] = str(error.refusal.code)
    return left
