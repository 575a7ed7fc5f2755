"""One step in progress: the actor, its state, and how it is recorded."""

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

import msgspec

from postdate.change_set.change.change import ChangeStep
from postdate.core.identity import Identity
from postdate.database.connection.database import Connection, Database
from postdate.foresight.spec.hypothesis import Hypothesis
from postdate.words.error import Code, refuse

C_contra = TypeVar("C_contra", contravariant=True)


class StepWork(msgspec.Struct, frozen=True):
    """What an operation is given to make one change, or to undo it."""

    database: Database
    actor: Identity
    step: ChangeStep
    note: str
    """Marks what the set writes, so that its undoing knows it from what others write."""
    record: Callable[[Connection], Awaitable[None]]
    """Record all steps in a transaction; refused where somebody else works on the set by now."""

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
