"""Change sets: try changes out, make them together, and undo them."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final
from uuid import UUID

import msgspec

from postdate.intake.accept.create_once import Remember, forget
from postdate.intake.accept.events import record_event
from postdate.intake.account.account import refuse_limited
from postdate.intake.change_set.change import (
    SCOPES,
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
from postdate.intake.change_set.operation import Operations
from postdate.model.error import Code, refuse
from postdate.model.foresight.hypothesis import Hypothesis
from postdate.model.ids import new_id
from postdate.model.tenant.identity import Identity
from postdate.store.change_set import change_set as store
from postdate.store.change_set.change_set import ChangeSetRow
from postdate.store.connection.database import Database
from postdate.store.schedule import schedule as schedule_store

HOLD: Final = timedelta(seconds=90)
"""How long a node works on a set before another may go on: longer than a request may take."""

_changes: Final = msgspec.json.Decoder(list[Change])
_steps: Final = msgspec.json.Decoder(list[ChangeStep])


class ChangeSet(msgspec.Struct, frozen=True):
    """A change set with what it holds."""

    row: ChangeSetRow
    changes: list[Change]
    steps: list[ChangeStep]


class ChangeSets:
    """Makes drafts, applies and undoes them; both go on where they were broken off."""

    def __init__(self, database: Database, operations: Operations) -> None:
        self._database = database
        self._operations = operations

    async def draft(
        self, actor: Identity, changes: Sequence[Change], note: str | None
    ) -> ChangeSet:
        """Plan changes; the jobs that match now are the only ones that they will touch."""
        _check(actor, changes)
        steps = [await self._operations.plan(actor, each) for each in changes]
        _check_cancelled_once(changes, steps)
        change_set_id = new_id(actor.tenant_id % 64, self._database.unix_ms())
        async with self._database.connection() as connection:
            now = await schedule_store.now(connection)
        encoded = (_text(changes), _text(steps))
        row = ChangeSetRow(change_set_id, "DRAFT", note, actor.key_id, now, now, *encoded)
        return ChangeSet(row, list(changes), steps)

    async def create(
        self, actor: Identity, draft: ChangeSet, remember: Remember[ChangeSet] = forget
    ) -> ChangeSet:
        """Store a draft."""
        async with self._database.write() as connection:
            await store.insert(connection, actor.tenant_id, draft.row)
            await remember(connection, draft)
        return draft

    async def find(self, actor: Identity, change_set_id: UUID) -> ChangeSet:
        """Read one."""
        refuse_limited(actor)
        reader = self._database.tenant_reader(actor.tenant_id)
        row = await store.find(reader, actor.tenant_id, change_set_id)
        if row is None:
            raise refuse(Code.NOT_FOUND, f"There is no change set {change_set_id}.")
        return _read(row)

    async def page(self, actor: Identity, before: UUID, limit: int) -> list[ChangeSet]:
        """List them, the newest first."""
        refuse_limited(actor)
        reader = self._database.tenant_reader(actor.tenant_id)
        rows = await store.page(reader, actor.tenant_id, before, limit)
        return [_read(row) for row in rows]

    async def apply(self, actor: Identity, change_set_id: UUID) -> ChangeSet:
        """Make the changes one after the other; go on where another call ended."""
        found = await self._hold(actor, change_set_id, ("DRAFT", "APPLYING"), "APPLIED")
        if found.row.status == "APPLIED":
            return found
        try:
            for change, step in zip(found.changes, found.steps, strict=True):
                if step.state == "planned":
                    await self._operations.begin(actor, change, step)
                    await self._record(actor, found)
                if step.state == "begun":
                    step.changed = await self._operations.make(actor, change, step)
                    step.state = "done"
                    await self._record(actor, found)
        except BaseException:
            await self._record(actor, found, "APPLYING")
            raise
        return await self._end(actor, found, "APPLIED")

    async def undo(self, actor: Identity, change_set_id: UUID) -> ChangeSet:
        """Undo the changes, the last first, unless something of them was executed."""
        expected = ("APPLIED", "APPLYING", "UNDOING")
        found = await self._hold(actor, change_set_id, expected, "UNDONE")
        if found.row.status == "UNDONE":
            return found
        begun = [
            (change, step)
            for change, step in zip(found.changes, found.steps, strict=True)
            if step.state in {"begun", "done"}
        ]
        try:
            if not any(step.state == "undone" for step in found.steps):
                for change, step in begun:
                    await self._operations.check_undo(actor, change, step)
            for change, step in reversed(begun):
                await self._operations.unmake(actor, change, step)
                step.state = "undone"
                await self._record(actor, found)
        except BaseException:
            await self._record(actor, found, _undo_broken_off(found.steps))
            raise
        return await self._end(actor, found, "UNDONE")

    async def suppose(self, actor: Identity, found: ChangeSet) -> Hypothesis:
        """Return what would be if the changes were made."""
        hypothesis = Hypothesis()
        for change, step in zip(found.changes, found.steps, strict=True):
            match change:
                case PauseLane():
                    hypothesis.paused_lanes.add(change.lane)
                case LimitLane():
                    hypothesis.rates[change.lane] = change.rate_per_second
                case PauseSchedule():
                    hypothesis.paused_schedules.add(change.schedule_id)
                case ChangePolicy():
                    if change.jitter_seconds is not None:
                        hypothesis.jitter[change.schedule_id] = change.jitter_seconds
                    if change.insufficient_funds is not None:
                        hypothesis.funds[change.schedule_id] = change.insufficient_funds
                case Freeze():
                    begin = change.from_at or found.row.created_at
                    hypothesis.freeze = begin, change.until_at
                case RescheduleJobs() | CancelJobs():
                    hypothesis.moved += await self._operations.moves(actor, change, step)
        return hypothesis

    async def _hold(
        self, actor: Identity, change_set_id: UUID, expected: Sequence[str], done: str
    ) -> ChangeSet:
        """Begin to work on a set alone; one that is done already is returned as it is."""
        found = await self.find(actor, change_set_id)
        _check(actor, found.changes)
        working = "APPLYING" if done == "APPLIED" else "UNDOING"
        async with self._database.write() as connection:
            held = await store.hold(
                connection, actor.tenant_id, change_set_id, expected, working, HOLD
            )
        current = await self.find(actor, change_set_id)
        if held or current.row.status == done:
            return current
        detail = f"The change set is {current.row.status}, or somebody is at it."
        raise refuse(
            Code.CONFLICT, detail, current_status=current.row.status, retry_after_seconds=5
        )

    async def _record(self, actor: Identity, found: ChangeSet, status: str | None = None) -> None:
        async with self._database.write() as connection:
            await store.record(
                connection, actor.tenant_id, found.row.change_set_id, _text(found.steps), status
            )

    async def _end(self, actor: Identity, found: ChangeSet, status: str) -> ChangeSet:
        about = actor.tenant_id, found.row.change_set_id
        kinds = [each["type"] for each in msgspec.to_builtins(found.changes)]
        event = f"change_set.{status.lower()}"
        async with self._database.write() as connection:
            await store.record(
                connection, actor.tenant_id, found.row.change_set_id, _text(found.steps), status
            )
            await record_event(
                connection, self._database, about, event, actor.key_id, {"changes": kinds}
            )
        return await self.find(actor, found.row.change_set_id)


def _check(actor: Identity, changes: Sequence[Change]) -> None:
    """Refuse whoever may not make each change by itself."""
    refuse_limited(actor)
    for number, change in enumerate(changes):
        scope = SCOPES[type(change)]
        if not actor.allows(scope):
            raise refuse(Code.FORBIDDEN, f"This needs the scope {scope}.", f"changes[{number}]")


def _check_cancelled_once(changes: Sequence[Change], steps: Sequence[ChangeStep]) -> None:
    """Refuse to cancel what another change touches: neither could be undone by itself."""
    for number, (change, step) in enumerate(zip(changes, steps, strict=True)):
        others = {job for other in steps if other is not step for job in other.jobs}
        if isinstance(change, CancelJobs) and not others.isdisjoint(step.jobs):
            detail = "It cancels jobs that another change of the set touches."
            raise refuse(Code.INVALID_FIELD, detail, f"changes[{number}].filter")


def _undo_broken_off(steps: Sequence[ChangeStep]) -> str:
    """Return what a set is whose undoing was refused: one that was not made whole stays so."""
    states = {step.state for step in steps}
    if "undone" in states:
        return "UNDOING"
    return "APPLIED" if states == {"done"} else "APPLYING"


def _text(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _read(row: ChangeSetRow) -> ChangeSet:
    return ChangeSet(row, _changes.decode(row.changes), _steps.decode(row.steps))
