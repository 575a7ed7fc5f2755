"""Occurrences computed once for all schedules with the same rule.

At the top of an hour many schedules of few rules are due; computing each anew would cost more than
all the rest of their expansion.
"""

from bisect import bisect_right
from collections.abc import Iterator
from datetime import datetime
from functools import lru_cache
from operator import attrgetter
from typing import Final

from postdate.model.recurrence import Plan
from postdate.model.recurrence import occurrences as computed
from postdate.model.schedule import Occurrence

PLANS_MOST: Final = 4096
OCCURRENCES_MOST: Final = 128
"""How many are kept of one plan, so that the cache stays small."""

_instant: Final = attrgetter("scheduled_for")


class _Memory:
    """The occurrences of one plan from an instant on, as far as somebody has asked."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._begin: datetime | None = None
        self._known: list[Occurrence] = []
        self._more: Iterator[Occurrence] = iter(())

    def holds(self, after: datetime) -> bool:
        """Say whether what comes after an instant is known, or begin to remember from there."""
        if self._begin is None or (self._known and self._known[-1].scheduled_for <= after):
            self._begin, self._known = after, []
            self._more = computed(self._plan, after)
        return self._begin <= after

    def after(self, after: datetime) -> Iterator[Occurrence]:
        """Give what comes after an instant, remembering what nobody has asked for before."""
        place = bisect_right(self._known, after, key=_instant)
        while place < OCCURRENCES_MOST:
            if place == len(self._known):
                coming = next(self._more, None)
                if coming is None:
                    return
                self._known.append(coming)
            yield self._known[place]
            place += 1
        # Whoever asks next begins anew: what is left of this walk is given away.
        self._begin = None
        yield from self._more


@lru_cache(PLANS_MOST)
def _memory(plan: Plan) -> _Memory:
    return _Memory(plan)


def occurrences(plan: Plan, after: datetime) -> Iterator[Occurrence]:
    """Give the occurrences after an instant: the same as `recurrence.occurrences`, only sooner.

    To be used up before anything else is asked, and in one thread.
    """
    memory = _memory(plan)
    return memory.after(after) if memory.holds(after) else computed(plan, after)
