"""Pause schedules and change their policies, and undo it unless others have since."""

from functools import partial
from typing import Any
from uuid import UUID

import msgspec

from postdate.change_set.change.change import (
    ChangePolicy,
    ChangeStep,
    PauseSchedule,
    ScheduleChanges,
)
from postdate.change_set.change.step_work import StepWork
from postdate.core.identity import Identity
from postdate.database.connection.database import Database
from postdate.foresight.spec.hypothesis import Hypothesis
from postdate.schedule.change.schedule import Schedules, lock_changeable
from postdate.schedule.change.validation import check_rights
from postdate.schedule.spec.schedule import Policies
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
        if isinstance(change, ChangePolicy) and not _patch(change, change).changes():
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
        if isinstance(change, PauseSchedule):
            await self._schedules.pause(
                work.actor, change.schedule_id, work.note, work.recording(_is_paused)
            )
        else:
            await self._schedules.change(
                work.actor,
                change.schedule_id,
                _patch(change, change),
                before_change=work.recording(_policies),
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
        key = work.actor, change.schedule_id
        if isinstance(change, PauseSchedule):
            others = _sentence(change.schedule_id, "it was paused or resumed by others since")
            ours = partial(_is_paused, note=work.note)
            await self._schedules.resume(*key, work.restoring(ours, others))
            return
        others = _sentence(change.schedule_id, "its policies were changed by others since")
        before = work.restoring(partial(_has_policies, change=change), others)
        back = _patch(change, msgspec.convert(work.step.before, Policies))
        await self._schedules.change(*key, back, before_change=before)


def _is_paused(row: ScheduleRow, note: str | None = None) -> bool:
    """Return whether a schedule is paused, or paused with this note."""
    return row.paused and note in {None, row.paused_note}


def _sentence(schedule_id: UUID, why: str) -> str:
    return f"schedule {schedule_id}: {why}"


def _patch(change: ChangePolicy, wanted: ChangePolicy | Policies) -> SchedulePatch:
    """Return a patch of the policies that a change is about, with the wanted values."""
    fields = ("jitter_seconds", "insufficient_funds")
    given = [each for each in fields if getattr(change, each) is not None]
    return SchedulePatch(**{each: getattr(wanted, each) for each in given})


def _policies(row: ScheduleRow) -> Any:
    return msgspec.to_builtins(row.definition.policies)


def _has_policies(row: ScheduleRow, change: ChangePolicy) -> bool:
    """Return whether a schedule has the policies that a change gave it."""
    policies = row.definition.policies
    return (
        change.jitter_seconds in {None, policies.jitter_seconds}
        and change.insufficient_funds in (None, policies.insufficient_funds)
    )  # fmt: skip
