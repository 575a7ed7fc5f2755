"""What settlement tells about itself."""

from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Counter, Histogram

from postdate.ledger.settle import Completed, Decision, Failed, RetryLater, Waits
from postdate.store.settlement import LockedTimer

_NAMES = {Completed: "completed", Failed: "failed", RetryLater: "retried", Waits: "waited"}
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15, 60, 300, 3600)


class Meter:
    """Counters and histograms of one process."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self._settled = Counter(
            "postdate_payment_settled",
            "Due payments by what became of them.",
            ["result"],
            registry=registry,
        )
        self._lateness = Histogram(
            "postdate_payment_lateness_seconds",
            "From due_at to the lock of the settlement.",
            registry=registry,
            buckets=_SECONDS,
        )
        self._batch = Histogram(
            "postdate_settlement_batch_seconds",
            "From lock to commit of one batch.",
            registry=registry,
            buckets=_SECONDS,
        )

    def settled(
        self, timers: Sequence[LockedTimer], decisions: Sequence[Decision], seconds: float
    ) -> None:
        """Count a committed batch."""
        if not timers:
            return
        self._batch.observe(seconds)
        kinds = [_NAMES[type(decision)] for decision in decisions]
        for kind in set(kinds):
            self._settled.labels(kind).inc(kinds.count(kind))
        for timer in timers:
            self._lateness.observe((timer.at - timer.due_at).total_seconds())
