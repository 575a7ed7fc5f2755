"""One step in progress: the actor, its state, and how it is recorded."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Protocol, TypeVar
from uuid import UUID

import msgspec

from postdate.change_set.change.change import ChangeStep
from postdate.core.identity import Identity
from postdate.database.connection.database import Connection, Database
from postdate.foresight.spec.hypothesis import Hypothesis
from postdate.intake.before_change import BeforeChange
from postdate.words.error import Code, refuse

C_contra = TypeVar("C_contra", contravariant=True)
R = TypeVar("R")


class StepWork(msgspec.Struct, frozen=True):
    """What an operation is given to make one change, or to undo it."""

    database: Database
    actor: Identity
    step: ChangeStep
    note: str
    """Marks what the set writes, so that its undoing knows it from what others write."""
    record: Callable[[Connection], Awaitable[None]]
    """Record all steps in a transaction; refused if another process works on the set by now."""

    async def done(self, connection: Connection, changed: int = 0) -> None:
        """Record that the change is made."""
        self.step.state = "done"
        self.step.changed = changed
        await self.record(connection)

    async def end(self, changed: int) -> None:
        """Record that the change is made, after the transactions that have made it."""
        async with self.database.write("change_set.step_done") as connection:
            await self.done(connection, changed)

    async def undone(self, connection: Connection, left: str | None = None) -> None:
        """Record that the change is undone, or what is left as it is and why."""
        self.step.state = "undone"
        if left is not None:
            self.step.left.append(left)
        await self.record(connection)

    def recording(self, was: Callable[[R], Any]) -> BeforeChange[R]:
        """Return a check that records what a locked object was; True leaves the object as it is."""

        async def before(connection: Connection, found: R) -> bool:
            self.step.before = was(found)
            await self.done(connection)
            return self.step.before is not True

        return before

    def restoring(self, is_ours: Callable[[R], bool], others: str) -> BeforeChange[R]:
        """Return a check that allows undoing where a locked object is still as the step left it.

        Otherwise the step says what others have done, unless the object was left as it was.
        """

        async def before(connection: Connection, found: R) -> bool:
            ours = is_ours(found)
            await self.undone(connection, None if ours or self.step.before is True else others)
            return ours

        return before

    async def changed(
        self,
        connection: Connection,
        due: Mapping[UUID, datetime],
        revisions: Mapping[UUID, int] | None = None,
    ) -> None:
        """Record when changed items were due, in the transaction that changed them."""
        self.step.state = "begun"
        self.step.due.update(due)
        self.step.revisions.update(revisions or {})
        await self.record(connection)

    async def changed_back(self, connection: Connection, items: Iterable[UUID]) -> None:
        """Record items that are as before, in the transaction that changed them back."""
        for each in items:
            del self.step.due[each], self.step.revisions[each]
        await self.record(connection)

    async def end_undone(self, left: str | None) -> None:
        """Record that the change is undone, after the transactions that have undone it."""
        async with self.database.write("change_set.step_undone") as connection:
            await self.undone(connection, left)


def check_not_executed(noun: str, executed: int, pruned: int) -> None:
    """Refuse to undo what was executed, or has ended and is no longer kept."""
    if executed:
        raise refuse(Code.CONFLICT, f"{executed} of its {noun} were executed.")
    if pruned:
        detail = (
            f"{pruned} of its {noun} ended and are no longer kept: they may have been executed."
        )
        raise refuse(Code.CONFLICT, detail)


class ObjectOperation:
    """The base of operations that change one object: undoing restores what `recording` read."""

    async def check_undo(self, actor: Identity, change: Any, step: ChangeStep) -> None:
        """Allow it: no job or payment was changed."""


class ChangeOperation(Protocol[C_contra]):
    """Makes and undoes changes of some kinds; repeating a call changes nothing more."""

    async def plan(self, actor: Identity, change: C_contra) -> ChangeStep:
        """Refuse an impossible change, and fix what matches now."""

    async def suppose(
        self, actor: Identity, change: C_contra, step: ChangeStep, hypothesis: Hypothesis
    ) -> None:
        """Add the effect of the change to the assumptions of a forecast."""

    async def make(self, work: StepWork, change: C_contra) -> None:
        """Make a change."""

    async def check_undo(self, actor: Identity, change: C_contra, step: ChangeStep) -> None:
        """Refuse to undo what was executed meanwhile."""

    async def unmake(self, work: StepWork, change: C_contra) -> None:
        """Revert what is still as the step left it."""
