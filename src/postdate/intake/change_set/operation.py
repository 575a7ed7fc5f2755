"""Make one change of a set, and undo it, with the operations that everybody uses."""

from collections.abc import Sequence
from math import isclose
from typing import Final, assert_never
from uuid import UUID

from msgspec import UNSET

from postdate.intake.change_set.change import (
    CancelJobs,
    Change,
    ChangePolicy,
    ChangeStep,
    Freeze,
    LimitLane,
    PauseLane,
    PauseSchedule,
    RescheduleJobs,
)
from postdate.intake.job.bulk import WAITING, Instant, JobBulk
from postdate.intake.job.dead_letter import MAX_REDRIVE, DeadLetters, Pace
from postdate.intake.job.lane import LaneChange, Lanes
from postdate.intake.schedule.schedule import Schedules, lock_changeable
from postdate.intake.tenant.halt import FreezeWindow, Halting
from postdate.model.error import Code, RefusedError, refuse
from postdate.model.foresight.hypothesis import MovedJob
from postdate.model.schedule.schedule import InsufficientFunds
from postdate.model.schedule.spec import SchedulePatch
from postdate.model.status import JobStatus
from postdate.model.tenant.identity import Identity
from postdate.store.connection.database import Database
from postdate.store.job import job_view
from postdate.store.job.job_view import JobRow
from postdate.store.schedule.schedule import ScheduleRow
from postdate.store.tenant import halt as halt_store
from postdate.store.timer import lane as lane_store

REASON: Final = "change set"
ROWS: Final = 1000


class Operations:
    """Makes and undoes changes; each may be repeated, and then changes nothing more."""

    def __init__(
        self,
        database: Database,
        *,
        lanes: Lanes,
        schedules: Schedules,
        halts: Halting,
        bulk: JobBulk,
        dead_letters: DeadLetters,
    ) -> None:
        self._database = database
        self._lanes = lanes
        self._schedules = schedules
        self._halts = halts
        self._bulk = bulk
        self._dead_letters = dead_letters

    async def plan(self, actor: Identity, change: Change) -> ChangeStep:
        """Refuse what cannot be made, and freeze the jobs that match."""
        match change:
            case PauseLane() | LimitLane():
                await self._lane(actor, change.lane)
            case PauseSchedule() | ChangePolicy():
                await self._schedule(actor, change.schedule_id)
            case Freeze():
                if change.from_at is not None and change.from_at >= change.until_at:
                    raise refuse(Code.INVALID_FIELD, "It ends before it begins.", "until_at")
            case RescheduleJobs() | CancelJobs():
                if isinstance(change, RescheduleJobs):
                    await self._bulk.check_instant(actor.tenant_id, change.to)
                found = await self._bulk.find(actor.tenant_id, change.filter, WAITING)
                return ChangeStep(jobs=list(found.jobs), more=found.more)
            case _:
                assert_never(change)
        return ChangeStep()

    async def begin(self, actor: Identity, change: Change, step: ChangeStep) -> ChangeStep:
        """Note what there is before a change."""
        match change:
            case PauseLane() | LimitLane():
                paused, step.rate_per_second = await self._lane(actor, change.lane)
                step.paused = paused
            case PauseSchedule() | ChangePolicy():
                row = await self._schedule(actor, change.schedule_id)
                step.paused = row.paused
                policies = row.definition.policies
                step.jitter_seconds = policies.jitter_seconds
                step.insufficient_funds = policies.insufficient_funds
            case Freeze():
                async with self._database.connection() as connection:
                    known = await halt_store.find(connection, actor.tenant_id, "freeze")
                if known is not None:
                    raise refuse(Code.CONFLICT, "The tenant has a freeze window already.")
            case RescheduleJobs() | CancelJobs():
                rows = await self._rows(actor, step.jobs)
                step.due = {
                    row.job_id: row.timer_due_at or row.effective_at
                    for row in rows
                    if row.status in WAITING
                }
                if isinstance(change, RescheduleJobs):
                    step.to = await self._bulk.check_instant(actor.tenant_id, change.to)
            case _:
                assert_never(change)
        step.state = "begun"
        return step

    async def make(self, actor: Identity, change: Change, step: ChangeStep) -> int:
        """Make a change; return how many jobs it changed."""
        tenant_id, key_id = actor.tenant_id, actor.key_id
        found = dict.fromkeys(step.due, JobStatus.PENDING)
        match change:
            case PauseLane():
                await self._lanes.pause(tenant_id, change.lane, note=REASON, actor=key_id)
            case LimitLane():
                rate = LaneChange(rate_per_second=change.rate_per_second)
                await self._lanes.change(tenant_id, change.lane, rate, key_id)
            case PauseSchedule():
                await self._schedules.pause(actor, change.schedule_id, REASON)
            case ChangePolicy():
                await self._patch(actor, change, change.jitter_seconds, change.insufficient_funds)
            case Freeze():
                window = FreezeWindow(from_at=change.from_at, until_at=change.until_at, mode="hold")
                await self._halts.freeze(tenant_id, window, REASON, key_id)
            case RescheduleJobs():
                to = Instant(run_at=step.to, spread_seconds=change.to.spread_seconds)
                return (await self._bulk.move_these(tenant_id, found, to, key_id, REASON)).jobs
            case CancelJobs():
                return (await self._bulk.cancel_these(tenant_id, found, key_id, REASON)).jobs
            case _:
                assert_never(change)
        return 0

    async def moves(
        self, actor: Identity, change: RescheduleJobs | CancelJobs, step: ChangeStep
    ) -> list[MovedJob]:
        """Return where the jobs of a change would go."""
        to = None
        if isinstance(change, RescheduleJobs):
            to = await self._bulk.check_instant(actor.tenant_id, change.to)
        return [
            MovedJob(row.lane_id, row.timer_due_at or row.effective_at, to)
            for row in await self._rows(actor, step.jobs)
            if row.status in WAITING
        ]

    async def check_undo(self, actor: Identity, change: Change, step: ChangeStep) -> None:
        """Refuse to undo what was executed meanwhile."""
        if isinstance(change, RescheduleJobs):
            rows = await self._rows(actor, list(step.due))
            begun = len(step.due) - sum(row.status in WAITING for row in rows)
            if begun:
                raise refuse(Code.CONFLICT, f"{begun} of its jobs were executed or ended.")

    async def unmake(self, actor: Identity, change: Change, step: ChangeStep) -> None:
        """Undo a change; where its schedule is gone there is nothing left to undo."""
        try:
            await self._unmake(actor, change, step)
        except RefusedError as error:
            if error.refusal.code is not Code.NOT_FOUND:
                raise

    async def _unmake(self, actor: Identity, change: Change, step: ChangeStep) -> None:
        tenant_id, key_id = actor.tenant_id, actor.key_id
        match change:
            case PauseLane():
                if not step.paused:
                    await self._lanes.resume(tenant_id, change.lane, actor=key_id)
            case LimitLane():
                await self._limit_back(actor, change, step)
            case PauseSchedule():
                if not step.paused:
                    await self._schedules.resume(actor, change.schedule_id)
            case ChangePolicy():
                jitter = None if change.jitter_seconds is None else step.jitter_seconds
                funds = None if change.insufficient_funds is None else step.insufficient_funds
                await self._patch(actor, change, jitter, funds)
            case Freeze():
                await self._lift(actor, change)
            case RescheduleJobs():
                found = dict.fromkeys(step.due, JobStatus.PENDING)
                back = f"{REASON} undone"
                await self._bulk.move_these(tenant_id, found, change.to, key_id, back, step.due)
            case CancelJobs():
                await self._restore(actor, step)
            case _:
                assert_never(change)

    async def _limit_back(self, actor: Identity, change: LimitLane, step: ChangeStep) -> None:
        """Give a lane its old limit, unless somebody else has set another since."""
        _, now = await self._lane(actor, change.lane)
        if _equal_rates(now, change.rate_per_second):
            rate = LaneChange(rate_per_second=step.rate_per_second)
            await self._lanes.change(actor.tenant_id, change.lane, rate, actor.key_id)

    async def _lift(self, actor: Identity, change: Freeze) -> None:
        """Lift the freeze that was set here; one that somebody else has set since stays."""
        reader = self._database.tenant_reader(actor.tenant_id)
        for each in await halt_store.load(reader, actor.tenant_id):
            if (each.kind, each.note, each.until_at) == ("freeze", REASON, change.until_at):
                await self._halts.lift(actor.tenant_id, "freeze", actor.key_id)

    async def _restore(self, actor: Identity, step: ChangeStep) -> None:
        """Make cancelled jobs anew, each due when it was; what is final stays so."""
        ids = list(step.due)
        for begin in range(0, len(ids), MAX_REDRIVE):
            some = ids[begin : begin + MAX_REDRIVE]
            await self._dead_letters.redrive(
                actor.tenant_id, some, Pace(), actor.key_id, f"{REASON} undone", step.due
            )

    async def _patch(
        self,
        actor: Identity,
        change: ChangePolicy,
        jitter_seconds: int | None,
        funds: InsufficientFunds | None,
    ) -> None:
        patch = SchedulePatch(
            jitter_seconds=UNSET if jitter_seconds is None else jitter_seconds,
            insufficient_funds=UNSET if funds is None else funds,
        )
        if patch.changes():
            await self._schedules.change(actor, change.schedule_id, patch)

    async def _lane(self, actor: Identity, name: str) -> tuple[bool, float | None]:
        async with self._database.read(actor.tenant_id) as connection:
            found = await lane_store.find(connection, [(actor.tenant_id, name)])
        if not found:
            raise refuse(Code.NOT_FOUND, f"There is no lane {name}.")
        return found[0].paused_at is not None, found[0].rate_per_second

    async def _schedule(self, actor: Identity, schedule_id: UUID) -> ScheduleRow:
        async with self._database.write() as connection:
            return await lock_changeable(connection, actor, schedule_id)

    async def _rows(self, actor: Identity, job_ids: Sequence[UUID]) -> list[JobRow]:
        """Read jobs, some at a time: all 10,000 at once take longer than a statement may."""
        rows: list[JobRow] = []
        for begin in range(0, len(job_ids), ROWS):
            some = job_ids[begin : begin + ROWS]
            async with self._database.read(actor.tenant_id) as connection:
                rows += (await job_view.find(connection, actor.tenant_id, some)).values()
        return rows


def _equal_rates(stored: float | None, given: float | None) -> bool:
    """Return whether a lane still has a limit; it is stored with single precision."""
    if stored is None or given is None:
        return stored is given
    return isclose(stored, given, rel_tol=1e-6)
