"""Activity: counts in slots of ten seconds, and lateness derived from them."""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Final

SLOT_SECONDS: Final = 10
KEEP_SECONDS: Final = 2 * 3600
"""How long slots are kept."""

COUNTED: Final[Mapping[str, int]] = {
    "job.accepted": 0,
    "payment.scheduled": 1,
    "job.completed": 2,
    "payment.completed": 3,
    "job.failed": 4,
    "payment.failed": 5,
}
"""Types of events that are counted, and the place of each in a row."""

LATE_SECONDS: Final = (
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
    30.0,
    60.0,
    300.0,
    3600.0,
)
"""Upper bounds of the histograms, of metrics too (the alerts ask at 0.5 and 1); what is later than
the last has a place of its own."""

Histogram = list[int]
Late = tuple[Histogram, Histogram]
"""How many jobs and how many payments began so late."""


def empty_histogram() -> Histogram:
    """Return a histogram without counts."""
    return [0] * (len(LATE_SECONDS) + 1)


def histogram(seconds: Iterable[float]) -> Histogram:
    """Count how many of these lie in each part: a set at once costs little more than one."""
    ordered = sorted(seconds)
    upto = [bisect_right(ordered, bound) for bound in LATE_SECONDS]
    return [after - before for before, after in pairwise((0, *upto, len(ordered)))]


class Lateness:
    """Counts of one process since they were last taken, for each tenant."""

    def __init__(self) -> None:
        self._late: dict[int, Late] = {}

    def jobs(self, tenant_id: int, late: Sequence[int]) -> None:
        """Count the lateness of started jobs."""
        add_counts(self._of(tenant_id)[0], late)

    def payments(self, tenant_id: int, late: Sequence[int]) -> None:
        """Count the lateness of settled payments."""
        add_counts(self._of(tenant_id)[1], late)

    def take(self) -> dict[int, Late]:
        """Return the counts and reset them."""
        taken, self._late = self._late, {}
        return taken

    def _of(self, tenant_id: int) -> Late:
        found = self._late.get(tenant_id)
        if found is None:
            found = self._late[tenant_id] = (empty_histogram(), empty_histogram())
        return found


def sum_histograms(histograms: Iterable[Sequence[int]]) -> Histogram:
    """Add histograms up."""
    total = empty_histogram()
    for each in histograms:
        add_counts(total, each[: len(total)])
    return total


def add_counts(total: Histogram, counts: Sequence[int]) -> None:
    """Add the counts of one histogram to another."""
    for place, many in enumerate(counts):
        total[place] += many


def percentile(histogram: Sequence[int], share: float) -> float | None:
    """Return the seconds within which this share began, interpolated; None without counts."""
    total = sum(histogram)
    if not total:
        return None
    wanted = share * total
    for place, reached in enumerate(accumulate(histogram)):
        if reached >= wanted:
            low = LATE_SECONDS[place - 1] if place else 0.0
            if place == len(LATE_SECONDS):
                return low
            within = (wanted - (reached - histogram[place])) / histogram[place]
            return low + (LATE_SECONDS[place] - low) * within
    return LATE_SECONDS[-1]
