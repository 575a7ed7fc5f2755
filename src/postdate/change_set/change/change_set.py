"""Change sets: preview changes, apply them together, and undo them."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import Final
from uuid import UUID

import msgspec

from postdate.change_set import store
from postdate.change_set.change.change import (
    SCOPES,
    ChangeStep,
    HaltTenant,
    JobItemChanges,
    PaymentItemChanges,
    SetChange,
)
from postdate.change_set.change.operation import Operations
from postdate.change_set.change.step_work import StepWork
from postdate.change_set.change.summary import ChangeSetSummary, StepSummary, summary_of
from postdate.change_set.store import ChangeSetRow, StoredSteps
from postdate.core.identity import Identity
from postdate.core.ids import new_id
from postdate.database.connection import clock
from postdate.database.connection.database import Connection, Database
from postdate.database.connection.error import DatabaseError
from postdate.event.store.event import record_event
from postdate.foresight.spec.hypothesis import Hypothesis
from postdate.intake.create_once import Remember, forget
from postdate.job.change.bulk import MAX_BULK
from postdate.words.error import Code, not_found, refuse

MAX_PAGE_BYTES: Final = 1024 * 1024
"""The most that the changes and summaries of one page have together; one set is always shown."""

HOLD: Final = timedelta(seconds=90)
"""How long a node works on a set before another may go on: longer than a request may take."""

_changes: Final = msgspec.json.Decoder(list[SetChange])
_steps: Final = msgspec.json.Decoder(list[ChangeStep])
_summary: Final = msgspec.json.Decoder(list[StepSummary])


class ChangeSet(msgspec.Struct, frozen=True):
    """A change set with what it holds."""

    row: ChangeSetRow
    changes: list[SetChange]
    steps: list[ChangeStep]

    @property
    def summary(self) -> ChangeSetSummary:
        """Return it without its items."""
        return ChangeSetSummary(self.row, self.changes, [summary_of(each) for each in self.steps])


class ChangeSets:
    """Creates, applies and undoes change sets; interrupted work can be continued."""

    def __init__(self, database: Database, operations: Operations) -> None:
        self._database = database
        self._operations = operations

    async def draft(
        self, actor: Identity, changes: Sequence[SetChange], note: str | None
    ) -> ChangeSet:
        """Plan changes; they will affect only what matches now."""
        check_rights(actor, changes)
        steps = [await self._operations.of(each).plan(actor, each) for each in changes]
        _check_order(changes, steps)
        change_set_id = new_id(actor.tenant_id % 64, self._database.unix_ms())
        async with self._database.connection() as connection:
            now = await clock.now(connection)
        encoded = (_text(changes), _stored(steps).summary)
        row = ChangeSetRow(change_set_id, "DRAFT", note, actor.key_id, now, now, *encoded)
        return ChangeSet(row, list(changes), steps)

    async def create(
        self, actor: Identity, draft: ChangeSet, remember: Remember[ChangeSet] = forget
    ) -> ChangeSet:
        """Store a draft."""
        async with self._database.write("change_set.create") as connection:
            await store.insert(connection, actor.tenant_id, draft.row, _text(draft.steps))
            await self._record_event(connection, actor, draft, "created")
            await remember(connection, draft)
        return draft

    async def find(self, actor: Identity, change_set_id: UUID) -> ChangeSet:
        """Read one."""
        reader = self._database.tenant_reader(actor.tenant_id)
        found = await store.find(reader, actor.tenant_id, change_set_id)
        if found is None:
            raise not_found("change set", change_set_id)
        row, steps = found
        return ChangeSet(row, _changes.decode(row.changes), _steps.decode(steps))

    async def page(
        self, actor: Identity, before: UUID, limit: int
    ) -> tuple[list[ChangeSetSummary], UUID | None]:
        """List them without their items, the newest first; the id is where the next page begins.

        A page of large sets has fewer than asked for, though more follow.
        """
        reader = self._database.tenant_reader(actor.tenant_id)
        rows, more = await store.page(reader, actor.tenant_id, before, limit, MAX_PAGE_BYTES)
        shown = [
            ChangeSetSummary(row, _changes.decode(row.changes), _summary.decode(row.summary))
            for row in rows
        ]
        return shown, rows[-1].change_set_id if more else None

    async def apply(self, actor: Identity, change_set_id: UUID) -> ChangeSet:
        """Apply the changes one after the other, continuing where an earlier call stopped."""
        found, token = await self._hold(actor, change_set_id, ("DRAFT", "APPLYING"), "APPLIED")
        if found.row.status == "APPLIED":
            return found
        async with self._at_work(actor, found, token):
            for change, step in zip(found.changes, found.steps, strict=True):
                if step.state in {"planned", "begun"}:
                    await self._check_killed(actor, change)
                    work = self._work(actor, found, token, step)
                    await self._operations.of(change).make(work, change)
            return await self._end(actor, found, token, "APPLIED")

    async def undo(self, actor: Identity, change_set_id: UUID) -> ChangeSet:
        """Undo the changes, the last first, unless a changed job or payment was executed.

        An object that others have changed since is left as it is, and the step says so.
        """
        expected = ("APPLIED", "APPLYING", "UNDOING")
        found, token = await self._hold(actor, change_set_id, expected, "UNDONE")
        if found.row.status == "UNDONE":
            return found
        begun = [
            (change, step)
            for change, step in zip(found.changes, found.steps, strict=True)
            if step.state in {"begun", "done"}
        ]
        async with self._at_work(actor, found, token):
            if not any(step.undoing for step in found.steps):
                await self._begin_undoing(actor, found, token, begun)
            for change, step in reversed(begun):
                await self._check_killed(actor, change)
                work = self._work(actor, found, token, step)
                await self._operations.of(change).unmake(work, change)
            return await self._end(actor, found, token, "UNDONE")

    async def _begin_undoing(
        self,
        actor: Identity,
        found: ChangeSet,
        token: int,
        begun: Sequence[tuple[SetChange, ChangeStep]],
    ) -> None:
        """Refuse if something was executed; otherwise record the start of the undo."""
        for change, step in begun:
            await self._operations.of(change).check_undo(actor, change, step)
            step.undoing = True
        async with self._database.write("change_set.begin_undoing") as connection:
            await self._record(connection, actor, found, token)

    async def suppose(self, actor: Identity, found: ChangeSet) -> Hypothesis:
        """Return the assumptions that the changes add to a forecast."""
        hypothesis = Hypothesis()
        for change, step in zip(found.changes, found.steps, strict=True):
            await self._operations.of(change).suppose(actor, change, step, hypothesis)
        return hypothesis

    async def _check_killed(self, actor: Identity, change: SetChange) -> None:
        """Refuse changes of a halted tenant, except to the halt itself."""
        if not isinstance(change, HaltTenant):
            await self._operations.check_killed(actor.tenant_id)

    def _work(self, actor: Identity, found: ChangeSet, token: int, step: ChangeStep) -> StepWork:
        async def record(connection: Connection) -> None:
            await self._record(connection, actor, found, token)

        note = f"change set {found.row.change_set_id}"
        return StepWork(self._database, actor, step, note, record)

    async def _record(
        self, connection: Connection, actor: Identity, found: ChangeSet, token: int
    ) -> None:
        key = actor.tenant_id, found.row.change_set_id
        if not await store.record(connection, *key, token, _stored(found.steps), HOLD):
            raise refuse(Code.CONFLICT, "Another process is now working on this change set.")
        await self._record_event(connection, actor, found, "progressed")

    async def _record_event(
        self, connection: Connection, actor: Identity, found: ChangeSet, verb: str
    ) -> None:
        """Record an event, which is sealed with the set as it is now."""
        about = actor.tenant_id, found.row.change_set_id
        kinds = [each["type"] for each in msgspec.to_builtins(found.changes)]
        data = {"changes": kinds, "states": [step.state for step in found.steps]}
        await record_event(connection, about, f"change_set.{verb}", actor.key_id, data)

    async def _hold(
        self, actor: Identity, change_set_id: UUID, expected: Sequence[str], done: str
    ) -> tuple[ChangeSet, int]:
        """Claim a set; return one that is already done unchanged."""
        found = await self.find(actor, change_set_id)
        check_rights(actor, found.changes)
        working = "APPLYING" if done == "APPLIED" else "UNDOING"
        async with self._database.write("change_set.hold") as connection:
            token = await store.hold(
                connection, actor.tenant_id, change_set_id, expected, working, HOLD
            )
            if token is not None:
                await self._record_event(connection, actor, found, working.lower())
        current = await self.find(actor, change_set_id)
        if token is not None or current.row.status == done:
            return current, token or 0
        detail = f"The change set is {current.row.status}; another process is working on it."
        raise refuse(
            Code.CONFLICT, detail, current_status=current.row.status, retry_after_seconds=5
        )

    @asynccontextmanager
    async def _at_work(self, actor: Identity, found: ChangeSet, token: int) -> AsyncIterator[None]:
        """Release the set when work on it is interrupted; its steps record the progress."""
        try:
            yield
        except BaseException:
            with suppress(DatabaseError):
                await asyncio.shield(self._break_off(actor, found.row.change_set_id, token))
            raise

    async def _break_off(self, actor: Identity, change_set_id: UUID, token: int) -> None:
        found = await self.find(actor, change_set_id)
        status = _broken_off(found)
        async with self._database.write("change_set.break_off") as connection:
            if await store.let_go(connection, actor.tenant_id, change_set_id, token, status):
                await self._record_event(connection, actor, found, "broken_off")

    async def _end(self, actor: Identity, found: ChangeSet, token: int, status: str) -> ChangeSet:
        change_set_id = found.row.change_set_id
        async with self._database.write("change_set.end") as connection:
            if not await store.let_go(connection, actor.tenant_id, change_set_id, token, status):
                raise refuse(Code.CONFLICT, "Another process is now working on this change set.")
            await self._record_event(connection, actor, found, status.lower())
        return await self.find(actor, change_set_id)


def check_rights(actor: Identity, changes: Sequence[SetChange]) -> None:
    """Refuse a key that may not make each change by itself."""
    for number, change in enumerate(changes):
        scope = SCOPES[type(change)]
        if not actor.allows(scope):
            raise refuse(
                Code.FORBIDDEN, f"This change needs the scope {scope}.", f"changes[{number}]"
            )


def _check_order(changes: Sequence[SetChange], steps: Sequence[ChangeStep]) -> None:
    """Refuse what could not be undone step by step."""
    seen: set[object] = set()
    for number, (change, step) in enumerate(zip(changes, steps, strict=True)):
        own = _touched(change, step)
        if not seen.isdisjoint(own):
            detail = "Another change of the set affects the same object."
            raise refuse(Code.INVALID_FIELD, detail, f"changes[{number}]")
        seen |= own
        if isinstance(change, HaltTenant) and number + 1 < len(changes):
            detail = "A halt must be the last change: nothing can be changed after it."
            raise refuse(Code.INVALID_FIELD, detail, f"changes[{number}]")
    if sum(len(step.jobs) + len(step.payments) for step in steps) > MAX_BULK:
        detail = f"A set changes at most {MAX_BULK} jobs and payments."
        raise refuse(Code.INVALID_FIELD, detail, "changes")


def _touched(change: SetChange, step: ChangeStep) -> set[object]:
    """Return what a change affects: its items, or its kind and the name of its object."""
    if isinstance(change, JobItemChanges | PaymentItemChanges):
        return {*step.jobs, *step.payments}
    names = ("lane", "schedule_id", "name")
    return {(type(change), *(getattr(change, name, None) for name in names))}


def _broken_off(found: ChangeSet) -> str:
    """Return the status of a set whose work was interrupted."""
    if any(step.undoing for step in found.steps):
        return "UNDOING"
    if found.row.status == "UNDOING" and {step.state for step in found.steps} == {"done"}:
        return "APPLIED"
    return "APPLYING"


def _text(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _stored(steps: Sequence[ChangeStep]) -> StoredSteps:
    return StoredSteps(_text([summary_of(each) for each in steps]), _text(steps))
