"""One series of the load forecast, minute by minute: stored and scheduled work."""

from collections import Counter
from collections.abc import Sequence

from postdate.model.foresight.minutes import Counts, added, coarsen, no_counts
from postdate.views.foresight.rules import MAX_SERIES, OTHERS, SeriesKey


class SeriesCounts:
    """Stored and scheduled work, by minute of a window."""

    def __init__(self, size: int) -> None:
        self.scheduled = no_counts(size)
        self.stored: Counter[int] = Counter()
        self.backlog = 0
        self._total: Counts | None = None
        self._amount: int | None = None

    def add_stored(self, minutes: Sequence[int], counts: Sequence[int]) -> None:
        """Add stored work; what is due before the window counts at its start."""
        found = dict(zip(minutes, counts, strict=True))
        self.backlog += found.pop(-1, 0)
        self.stored.update(found)

    @property
    def total(self) -> Counts:
        """Return both together."""
        if self._total is None:
            self._total = self.scheduled[:]
            for minute, count in self.stored.items():
                self._total[minute] += count
        return self._total

    @property
    def amount(self) -> int:
        """Return how much comes due within the window."""
        if self._amount is None:
            self._amount = sum(self.total)
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
        total = self.total[:]
        waits = sum(total[begin:until])
        for minute in range(begin, min(until, len(total))):
            total[minute] = 0
        if until < len(total):
            total[until] += waits
        self._total, self._amount = total, None
        return waits

    def join(self, other: "SeriesCounts") -> None:
        """Add another series."""
        self.scheduled = added([self.scheduled, other.scheduled])
        self.stored.update(other.stored)
        self.backlog += other.backlog
        self._total = self._amount = None


def largest(grids: dict[SeriesKey, SeriesCounts], size: int) -> dict[SeriesKey, SeriesCounts]:
    """Keep the largest series, and combine all others."""
    if len(grids) <= MAX_SERIES:
        return dict(grids)
    order = sorted(grids.items(), key=lambda each: -each[1].amount)
    kept = dict(order[:MAX_SERIES])
    for (payments, _), both in order[MAX_SERIES:]:
        kept.setdefault((payments, OTHERS), SeriesCounts(size)).join(both)
    return kept
