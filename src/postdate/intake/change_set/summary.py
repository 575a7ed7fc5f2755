"""Change sets as they are listed: counts in the place of items, and money only for its readers."""

from typing import Final, Literal, TypeVar

import msgspec

from postdate.intake.change_set.change import (
    Change,
    ChangeStep,
    PaymentBulkFilter,
    PaymentItemChanges,
)
from postdate.model.tenant.identity import Identity, Scope
from postdate.store.change_set.change_set import ChangeSetRow

S = TypeVar("S", bound=msgspec.Struct)

MAX_LEFT: Final = 20
"""How many sentences about what was left are shown; `left_count` says how many there are."""


class StepSummary(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How far one change has come; its size does not depend on how much it touches."""

    state: Literal["planned", "begun", "done", "undone"] = "planned"
    jobs: int = 0
    payments: int = 0
    amount: int | None = 0
    more: bool = False
    changed: int = 0
    restored: int = 0
    left: list[str] = []
    left_count: int = 0


class ChangeSetSummary(msgspec.Struct, frozen=True):
    """A change set without its items."""

    row: ChangeSetRow
    changes: list[Change]
    steps: list[StepSummary]

    def seen_by(self, actor: Identity) -> "ChangeSetSummary":
        """Leave out which payments a change is about where the key may not read payments."""
        if actor.allows(Scope.PAYMENTS_READ):
            return self
        shown = [
            without_money(change, step)
            for change, step in zip(self.changes, self.steps, strict=True)
        ]
        return ChangeSetSummary(self.row, [each for each, _ in shown], [each for _, each in shown])


def summary_of(step: ChangeStep) -> StepSummary:
    """Count what a step holds."""
    return StepSummary(
        state=step.state,
        jobs=len(step.jobs),
        payments=len(step.payments),
        amount=step.amount,
        more=step.more,
        changed=step.changed,
        restored=len(step.restored),
        left=step.left[:MAX_LEFT],
        left_count=len(step.left),
    )


def without_money(change: Change, step: S) -> tuple[Change, S]:
    """Leave out of a change and its step how much money, and which payments, it is about."""
    if not isinstance(change, PaymentItemChanges):
        return change, step
    hidden = msgspec.structs.replace(change, filter=PaymentBulkFilter())
    return hidden, msgspec.structs.replace(step, amount=None, left=[])
