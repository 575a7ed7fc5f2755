"""Change sets as they are listed: counts in the place of items."""

from typing import Final, Literal

import msgspec

from postdate.change_set.change.change import ChangeStep, SetChange
from postdate.change_set.store import ChangeSetRow

MAX_LEFT: Final = 20
"""How many sentences about what was left are shown; `left_count` says how many there are."""


class StepSummary(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The progress of one change, in a size independent of the number of items."""

    state: Literal["planned", "begun", "done", "undone"] = "planned"
    jobs: int = 0
    payments: int = 0
    amount: int = 0
    more: bool = False
    changed: int = 0
    restored: int = 0
    left: list[str] = []
    left_count: int = 0


class ChangeSetSummary(msgspec.Struct, frozen=True):
    """A change set without its items."""

    row: ChangeSetRow
    changes: list[SetChange]
    steps: list[StepSummary]


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
