"""Pause schedules and change their policies, and undo it unless somebody else has since."""

from uuid import UUID

from msgspec import UNSET

from postdate.change_set.change.change import (
    ChangePolicy,
    ChangeStep,
    PauseSchedule,
    ScheduleChanges,
)
from postdate.change_set.change.step_work import StepWork
from postdate.core.identity import Identity
from postdate.database.connection.database import Connection, Database
from postdate.foresight.spec.hypothesis import Hypothesis
from postdate.schedule.change.schedule import Schedules, lock_changeable
from postdate.schedule.change.validation import check_rights
from postdate.schedule.spec.schedule import InsufficientFunds, Policies
from postdate.schedule.spec.spec import SchedulePatch
from postdate.schedule.store.schedule import ScheduleRow
from postdate.words.error import Code, RefusedError, refuse


class ScheduleOperation:
    """Changes schedules."""

    def __init__(self, database: Database, schedules: Schedules) -> None:
        self._database = database
        self._schedules = schedules

    async def plan(self, actor: Identity, change: ScheduleChanges) -> ChangeStep:
        """Refuse a schedule that the key may not change, and an empty change."""
        if isinstance(change, ChangePolicy) and not _patch(change).changes():
            raise refuse(Code.INVALID_FIELD, "Give at least one field to change.", "jitter_seconds")
        async with self._database.write() as connection:
            await lock_changeable(connection, actor, change.schedule_id)
        return ChangeStep()

    async def suppose(
        self, _actor: Identity, change: ScheduleChanges, _step: ChangeStep, hypothesis: Hypothesis
    ) -> None:
        """Add a pause or a policy."""
        if isinstance(change, PauseSchedule):
            hypothesis.paused_schedules.add(change.schedule_id)
            return
        if change.jitter_seconds is not None:
            hypothesis.jitter[change.schedule_id] = change.jitter_seconds
        if change.insufficient_funds is not None:
            hypothesis.funds[change.schedule_id] = change.insufficient_funds

    async def make(self, work: StepWork, change: ScheduleChanges) -> None:
        """Pause a schedule, or change its policies."""
        step = work.step

        async def before(connection: Connection, row: ScheduleRow) -> bool:
            step.paused, step.version = row.paused, row.version
            if isinstance(change, ChangePolicy):
                policies = row.definition.policies
                step.jitter_seconds = policies.jitter_seconds
                step.insufficient_funds = policies.insufficient_funds
            await work.done(connection)
            return True

        if isinstance(change, PauseSchedule):
            await self._schedules.pause(work.actor, change.schedule_id, work.note, before)
        else:
            await self._schedules.change(
                work.actor, change.schedule_id, _patch(change), before_change=before
            )

    async def check_undo(
        self,
        actor: Identity,
        change: ScheduleChanges,
        step: ChangeStep,  # noqa: ARG002 - the shape of operations
    ) -> None:
        """Refuse a key that could not run the schedule; what was skipped stays skipped."""
        async with self._database.write() as connection:
            try:
                row = await lock_changeable(connection, actor, change.schedule_id, legible=False)
            except RefusedError as error:
                if error.refusal.code is not Code.NOT_FOUND:
                    raise
                return
            check_rights(actor, row.readable_part)

    async def unmake(self, work: StepWork, change: ScheduleChanges) -> None:
        """Resume a schedule, or restore its old policies; ignore one that was deleted."""
        try:
            await self._unmake(work, change)
        except RefusedError as error:
            if error.refusal.code is not Code.NOT_FOUND:
                raise
            await work.end_undone(_sentence(change.schedule_id, "it is gone"))

    async def _unmake(self, work: StepWork, change: ScheduleChanges) -> None:
        step = work.step

        async def before(connection: Connection, row: ScheduleRow) -> bool:
            if isinstance(change, PauseSchedule):
                ours = row.paused and row.paused_note == work.note
                why = None if ours or step.paused else "it was paused or resumed by others since"
            else:
                ours = _has(row.definition.policies, change)
                why = None if ours else "its policies were changed by others since"
            await work.undone(connection, why and _sentence(change.schedule_id, why))
            return ours

        if isinstance(change, PauseSchedule):
            await self._schedules.resume(work.actor, change.schedule_id, before)
            return
        back = _patch(change, step.jitter_seconds, step.insufficient_funds)
        await self._schedules.change(work.actor, change.schedule_id, back, before_change=before)


def _sentence(schedule_id: UUID, why: str) -> str:
    return f"schedule {schedule_id}: {why}"


def _patch(
    change: ChangePolicy,
    jitter_seconds: int | None = None,
    funds: InsufficientFunds | None = None,
) -> SchedulePatch:
    """Return the patch of a change, or one with these policies instead."""
    jitter = change.jitter_seconds if jitter_seconds is None else jitter_seconds
    own = change.insufficient_funds if funds is None else funds
    return SchedulePatch(
        jitter_seconds=UNSET if change.jitter_seconds is None or jitter is None else jitter,
        insufficient_funds=UNSET if change.insufficient_funds is None or own is None else own,
    )


def _has(policies: Policies, change: ChangePolicy) -> bool:
    """Return whether a schedule has the policies that a change gave it."""
    return (
        change.jitter_seconds in {None, policies.jitter_seconds}
        and change.insufficient_funds in (None, policies.insufficient_funds)
    )  # fmt: skip
