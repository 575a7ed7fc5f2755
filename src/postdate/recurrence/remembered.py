"""Occurrences computed once for all schedules with the same rule.

At the top of an hour many schedules of few rules are due; computing each separately would cost more
than the rest of their expansion.
"""

from bisect import bisect_right
from collections.abc import Iterator
from datetime import datetime
from functools import lru_cache
from operator import attrgetter
from typing import Final

from postdate.recurrence.plan import RecurrencePlan
from postdate.recurrence.plan import occurrences as computed
from postdate.recurrence.rule import Occurrence

MAX_PLANS: Final = 4096
MAX_OCCURRENCES: Final = 128
"""How many are kept of one plan, so that the cache stays small."""

STRIDE: Final = 8
"""How many may be computed on the way to a later instant before a walk begins there instead."""

_instant: Final = attrgetter("scheduled_for")


class _Memory:
    """The occurrences of one plan from an instant on, as far as they were requested."""

    def __init__(self, plan: RecurrencePlan) -> None:
        self._plan = plan
        self._begin: datetime | None = None
        self._known: list[Occurrence] = []
        self._more: Iterator[Occurrence] = iter(())

    def after(self, after: datetime) -> Iterator[Occurrence]:
        """Return the occurrences after an instant, and remember the new ones."""
        if not self._covers(after):
            self._begin, self._known = after, []
            self._more = computed(self._plan, after)
        place = bisect_right(self._known, after, key=_instant)
        while place < max(MAX_OCCURRENCES, len(self._known)):
            if place == len(self._known):
                coming = self._compute()
                if coming is None:
                    return
                self._known.append(coming)
            yield self._known[place]
            place += 1
        # The next caller starts over: the rest of this walk is dropped.
        self._begin = None
        yield from self._more

    def _covers(self, after: datetime) -> bool:
        # A new schedule asks from now on, a due schedule from an hour ago:
        # a caller that needs the earlier part makes the memory begin there.
        if self._begin is None or after < self._begin:
            return False
        for _ in range(STRIDE):
            if self._known and after < self._known[-1].scheduled_for:
                return True
            coming = self._compute()
            if coming is None:
                return True
            self._known.append(coming)
        return False

    def _compute(self) -> Occurrence | None:
        try:
            return next(self._more, None)
        except BaseException:
            # An interrupted walk yields nothing more, which must not look like the end of a rule.
            self._begin = None
            raise


@lru_cache(MAX_PLANS)
def _memory(plan: RecurrencePlan) -> _Memory:
    return _Memory(plan)


def occurrences(plan: RecurrencePlan, after: datetime) -> Iterator[Occurrence]:
    """Return the occurrences after an instant: the same as `recurrence.occurrences`, only sooner.

    To be used up before anything else is asked, and in one thread.
    """
    return _memory(plan).after(after)
