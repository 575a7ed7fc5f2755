"""One step at work: who asks, what is known of it, and how it is recorded."""

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

import msgspec

from postdate.intake.change_set.change import ChangeStep
from postdate.model.foresight.hypothesis import Hypothesis
from postdate.model.tenant.identity import Identity
from postdate.store.connection.database import Connection

C_contra = TypeVar("C_contra", contravariant=True)


class StepWork(msgspec.Struct, frozen=True):
    """What an operation is given to make one change, or to undo it."""

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

    async def undone(self, connection: Connection, left: str | None = None) -> None:
        """Record that the change is undone, or what is left as it is and why."""
        self.step.state = "undone"
        if left is not None:
            self.step.left.append(left)
        await self.record(connection)


class ChangeOperation(Protocol[C_contra]):
    """Makes changes of some kinds, and undoes them; what is repeated changes nothing more."""

    async def plan(self, actor: Identity, change: C_contra) -> ChangeStep:
        """Refuse what cannot be made, and freeze what matches."""

    async def suppose(
        self, actor: Identity, change: C_contra, step: ChangeStep, hypothesis: Hypothesis
    ) -> None:
        """Add what would be if the change were made."""

    async def make(self, work: StepWork, change: C_contra) -> None:
        """Make a change."""

    async def check_undo(self, actor: Identity, change: C_contra, step: ChangeStep) -> None:
        """Refuse to undo what was executed meanwhile."""

    async def unmake(self, work: StepWork, change: C_contra) -> None:
        """Change back what is still as the step has left it."""
