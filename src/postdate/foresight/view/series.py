"""One series of the load forecast, minute by minute: stored and scheduled work."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from postdate.foresight.spec.minutes import Counts, added, coarsen, no_counts
from postdate.foresight.view.rules import MAX_SERIES, OTHERS, By, SeriesKey


class SeriesCounts:
    """Stored and scheduled work, by minute of a window.

    Only what schedules do has a place for each minute: a thousand lanes with a job each have none.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self.scheduled: Counts | None = None
        self.stored: Counter[int] = Counter()
        self.backlog = 0
        self._held = (0, 0)
        self._amount: int | None = None

    def add_scheduled(self, counts: Counts) -> None:
        """Add what schedules do."""
        self.scheduled = counts if self.scheduled is None else added([self.scheduled, counts])

    def add_stored(self, minutes: Sequence[int], counts: Sequence[int]) -> None:
        """Add stored work; what is due before the window counts at its start."""
        found = dict(zip(minutes, counts, strict=True))
        self.backlog += found.pop(-1, 0)
        self.stored.update(found)

    @property
    def total(self) -> Counts:
        """Return both together, by minute; not remembered, because a year takes 2 MB."""
        total = no_counts(self._size) if self.scheduled is None else self.scheduled[:]
        for minute, count in self.stored.items():
            total[minute] += count
        begin, until = self._held
        waits = sum(total[begin:until])
        if waits:
            for minute in range(begin, min(until, self._size)):
                total[minute] = 0
            if until < self._size:
                total[until] += waits
        return total

    @property
    def amount(self) -> int:
        """Return how much comes due within the window."""
        if self._amount is None:
            scheduled = 0 if self.scheduled is None else sum(self.scheduled)
            self._amount = scheduled + self.stored.total()
        return self._amount

    def coarsened(self, width: int) -> list[int]:
        """Return how much comes due per slot of several minutes."""
        counts = coarsen(self.total, width)
        self._amount = sum(counts)
        return counts

    @property
    def count(self) -> int:
        """Return how much there is, what is due before the window included."""
        return self.amount + self.backlog

    def hold(self, begin: int, until: int) -> int:
        """Move what is due between two minutes to the later one; return how much that is."""
        if until <= begin:
            return 0
        waits = sum(self.total[begin:until])
        amount = self.amount
        self._held = begin, until
        self._amount = amount if until < self._size else amount - waits
        return waits


KINDS: Final = 2
"""Jobs and payments."""


def max_series(by: By) -> int:
    """Return how many series an answer has at most: the largest, and the others of each kind."""
    return KINDS if by == "total" else MAX_SERIES + KINDS


def largest(counted: Sequence[tuple[SeriesKey, Sequence[int]]]) -> dict[SeriesKey, SeriesKey]:
    """Return the series that shows each one: the largest show themselves, one all others."""
    names = {series for series, _ in counted}
    if len(names) <= MAX_SERIES:
        return {series: series for series in names}
    amounts: Counter[SeriesKey] = Counter()
    for series, counts in counted:
        amounts[series] += sum(counts)
    kept = {series for series, _ in amounts.most_common(MAX_SERIES)}
    return {each: each if each in kept else (each[0], OTHERS) for each in names}
