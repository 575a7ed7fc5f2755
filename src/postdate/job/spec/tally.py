"""Counts of job outcomes as plain numbers, turned into metrics at a scrape."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from postdate.job.spec.failure_code import FAILURE_CODES
from postdate.job.spec.verdict import (
    DONE,
    End,
    Keep,
    Move,
    Verdict,
    event_type,
)
from postdate.monitor.spec.activity import Lateness, add_counts, empty_histogram, histogram
from postdate.monitor.spec.tenant_share import TenantShares

COMPLETED: Final = "completed"
"""Stands in the place of a class where an attempt did not fail."""

CLASSES: Final = (
    "busy",
    "connect",
    "expired",
    "lost",
    "other",
    "refused",
    "server_error",
    "timeout",
)
"""Every class that a failure can have: a worker's own codes are `other`."""


def failure_class(code: str | None) -> str:
    """Return the class of a failure's code, one of a fixed few."""
    if code is None:
        return "other"
    if found := FAILURE_CODES.get(code):
        return found.counted_as
    if code.startswith("http_"):
        return "server_error" if code.startswith("http_5") else "refused"
    return "other"


def no_tier(_: int) -> str:
    """Stand for tenants that have no tier."""
    return ""


class Tally:
    """The counts of one process and one kind of lane."""

    def __init__(
        self,
        lateness: Lateness | None = None,
        shares: TenantShares | None = None,
        tier_of: Callable[[int], str] = no_tier,
    ) -> None:
        self._tier_of = tier_of
        self._lateness = lateness or Lateness()
        self._shares = shares or TenantShares()
        self.counts: Counter[str] = Counter()
        self.classes: Counter[tuple[str, str]] = Counter()
        """How often (verb, class of failure) happened."""
        self.attempts: Counter[tuple[str, str]] = Counter()
        """How many attempts had (class of failure, tier of the tenant)."""
        self.late = empty_histogram()
        self.late_sum = 0.0
        self.durations = empty_histogram()
        self.duration_sum = 0.0
        self.running = 0

    def accepted(self, count: int) -> None:
        """Count accepted jobs."""
        self.counts["accepted"] += count

    def claimed(self, tenant_id: int, late_seconds: Sequence[float]) -> None:
        """Count claims of a tenant's jobs, each so long after it was due."""
        if not late_seconds:
            return
        late, seconds = histogram(late_seconds), sum(late_seconds)
        self._lateness.jobs(tenant_id, late)
        self._shares.add(tenant_id, "job", late, seconds)
        add_counts(self.late, late)
        self.late_sum += seconds

    def count_attempts(self, seconds: Sequence[float]) -> None:
        """Count attempts that took so long, from their start to their report."""
        if seconds:
            add_counts(self.durations, histogram(seconds))
            self.duration_sum += sum(seconds)

    def count_lost(self, tenant_id: int, leases: int, retried: int) -> None:
        """Count leases of a tenant that ran out, and how many of their jobs are tried again.

        The process that takes the jobs over counts them: the one that lost them may be gone.
        """
        if leases:
            self.counts["lease_lost"] += leases
            self.classes["retried", "lost"] += retried
            self.attempts["lost", self._tier_of(tenant_id)] += leases

    def completed(self, tenant_id: int, count: int) -> None:
        """Count plain successes of a tenant that were written."""
        self.counts["completed"] += count
        self.attempts[COMPLETED, self._tier_of(tenant_id)] += count

    def recorded(self, verdicts: Sequence[tuple[int, Verdict]]) -> None:
        """Count verdicts that were written, each with its tenant."""
        for tenant_id, verdict in verdicts:
            if verdict is DONE:
                self.completed(tenant_id, 1)
                continue
            if not isinstance(verdict, Keep) and verdict.tried:
                self.attempts[_attempt_class(verdict), self._tier_of(tenant_id)] += 1
            verb = _verb(verdict)
            if verb in FAILING and not isinstance(verdict, Keep):
                self.classes[verb, failure_class(verdict.code)] += 1
            else:
                self.counts[verb] += 1


FAILING: Final = ("failed", "retried", "unknown")
"""The verbs that are counted by class of failure."""


def _attempt_class(verdict: End | Move) -> str:
    ended_well = isinstance(verdict, End) and verdict.status == "COMPLETED"
    return COMPLETED if ended_well else failure_class(verdict.code)


def _verb(verdict: Verdict) -> str:
    match verdict:
        case Keep():
            return "kept"
        case End() | Move():
            kind = event_type(verdict)
            return kind.removeprefix("job.") if kind else "throttled"
