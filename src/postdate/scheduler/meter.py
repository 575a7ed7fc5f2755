"""Metrics of the scheduler."""

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Histogram

_SECONDS = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15, 60, 300, 3600, 21_600, 86_400)


class ScheduleMeter:
    """Counters and histograms of one process."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self._occurrences = Counter(
            "postdate_schedule_occurrences",
            "Rows written to the book, by label.",
            ["status"],
            registry=registry,
        )
        self._lateness = Histogram(
            "postdate_schedule_lateness_seconds",
            "From the due instant of a schedule's timer to its expansion.",
            registry=registry,
            buckets=_SECONDS,
        )
        self._missing = Counter(
            "postdate_schedule_audit_missing",
            "Occurrences that the audit expected and did not find in the book.",
            registry=registry,
        )
        self._repaired = Counter(
            "postdate_schedule_audit_timers",
            "Schedules whose timer the audit found missing, overdue or too far ahead.",
            registry=registry,
        )
        self._recomputed = Counter(
            "postdate_schedule_recomputed",
            "Schedules whose next occurrence moved with new tz data.",
            registry=registry,
        )
        self._broken = Counter(
            "postdate_schedule_broken",
            "Schedules set aside because expanding them failed.",
            registry=registry,
        )

    def expanded(self, statuses: Iterable[str], lateness: Iterable[float]) -> None:
        """Count a committed batch."""
        labels = list(statuses)
        for status in set(labels):
            self._occurrences.labels(status.lower()).inc(labels.count(status))
        for seconds in lateness:
            self._lateness.observe(seconds)

    def count_missing(self, count: int) -> None:
        """Count what the audit found missing."""
        self._missing.inc(count)

    def count_silent(self) -> None:
        """Count a schedule that did not fire when its rule says so."""
        self._repaired.inc()

    def recomputed(self, count: int) -> None:
        """Count schedules that new tz data moved."""
        self._recomputed.inc(count)

    def count_set_aside(self) -> None:
        """Count a schedule that was set aside."""
        self._broken.inc()
