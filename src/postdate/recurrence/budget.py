"""The work that finding one occurrence may take, counted in steps and never in time."""

from datetime import date
from typing import Final

from postdate.core import work
from postdate.words.error import Code, refuse

HORIZON: Final = date(2200, 1, 1)
"""No rule is followed beyond this day: every search has an end, and schedules have one too."""

MAX_STEPS: Final = 50_000
"""Several times what the slowest known rule needs: the horizon ends a search before this does."""

STEP_WORK: Final = 4
"""What a step counts for the allowance of a computation."""


class StepBudget:
    """Steps that lead to no occurrence; a rule that needs too many of them is refused."""

    __slots__ = ("left", "spent")

    def __init__(self) -> None:
        self.left = MAX_STEPS
        self.spent = 0

    def spend(self, steps: int = 1) -> None:
        """Count steps of a search."""
        self.left -= steps
        self.spent += steps
        work.spend(steps * STEP_WORK)
        if self.left < 0:
            detail = (
                f"Finding an occurrence takes more than {MAX_STEPS} steps; write a simpler rule, "
                "or end it by end_at or max_runs instead of COUNT."
            )
            raise refuse(Code.INVALID_FIELD, detail, "rrule")

    def renew(self) -> None:
        """Reset the count, because an occurrence was found."""
        self.left = MAX_STEPS
