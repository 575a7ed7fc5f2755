"""What the busiest tenants do, one by one, and all others together: a bounded number of series."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from postdate.monitor.spec.activity import LATE_SECONDS, add_counts, empty_histogram

NAMED_TENANTS: Final = 20
"""Number of tenants with series of their own in each process; the others share one."""

FADING: Final = 0.8
"""What a tenant did counts for this much at the next ranking: who is quiet falls back slowly."""

AHEAD: Final = 1.5
"""A tenant takes another's place only if it does this many times as much: places do not flutter."""


class TenantCounts:
    """Attempts by kind (job, payment), and how late they began."""

    def __init__(self) -> None:
        self.attempts: Counter[str] = Counter()
        self.late = empty_histogram()
        self.late_sum = 0.0

    def add(self, kind: str, late: Sequence[int], seconds: float) -> None:
        """Count a set of attempts, given as a histogram of lateness and its sum."""
        self.attempts[kind] += sum(late)
        add_counts(self.late, late)
        self.late_sum += seconds


class TenantShares:
    """Counts of one process. All are counters: they only grow for as long as they are shown.

    A tenant that becomes one of the named begins at zero, and what it did before stays with the
    rest; one that no longer is one of them is counted with the rest from then on.
    """

    def __init__(self, named_tenants: int = NAMED_TENANTS) -> None:
        self._named_limit = named_tenants
        self._named: dict[int, TenantCounts] = {}
        self._recent: Counter[int] = Counter()
        self._scores: dict[int, float] = {}
        self.rest = TenantCounts()

    @property
    def named(self) -> Mapping[int, TenantCounts]:
        """Return the counts of the tenants that have series of their own."""
        return self._named

    def add(self, tenant_id: int, kind: str, late: Sequence[int], seconds: float) -> None:
        """Count a set of attempts of one tenant."""
        counts = self._named.get(tenant_id)
        if counts is None and len(self._named) < self._named_limit:
            counts = self._named[tenant_id] = TenantCounts()
        (counts or self.rest).add(kind, late, seconds)
        self._recent[tenant_id] += sum(late)

    def rank(self) -> None:
        """Choose again which tenants get their own series; call it at intervals."""
        faded = {tenant_id: score * FADING for tenant_id, score in self._scores.items()}
        for tenant_id, count in self._recent.items():
            faded[tenant_id] = faded.get(tenant_id, 0.0) + count
        self._scores = {tenant_id: score for tenant_id, score in faded.items() if score >= 1.0}
        self._recent.clear()
        others = (each for each in self._scores if each not in self._named)
        for tenant_id in sorted(others, key=self._score, reverse=True)[: self._named_limit]:
            self._admit(tenant_id)

    def _admit(self, tenant_id: int) -> None:
        """Name a tenant in the series, where there is room or another one does far less."""
        if len(self._named) >= self._named_limit:
            least = min(self._named, key=self._score)
            if self._score(tenant_id) < AHEAD * max(1.0, self._score(least)):
                return
            del self._named[least]
        self._named[tenant_id] = TenantCounts()

    def _score(self, tenant_id: int) -> float:
        return self._scores.get(tenant_id, 0.0)


TENANT_BOUNDS: Final = tuple(LATE_SECONDS.index(bound) for bound in (0.1, 1.0, 10.0, 60.0, 3600.0))
"""The bounds of the lateness of tenants, as places among all: there are many tenants."""
