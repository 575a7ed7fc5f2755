"""Metrics of job outcomes, computed from the tallies at each scrape."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Final

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from postdate.job.spec.tally import CLASSES, FAILING, Tally
from postdate.monitor.spec.activity import LATE_SECONDS

VERBS: Final[Mapping[str, str]] = {
    "accepted": "Jobs accepted.",
    "completed": "Jobs completed.",
    "throttled": "Jobs postponed without an attempt, by a limit or an open breaker.",
    "kept": "Jobs accepted by their receiver, to be acknowledged later.",
    "lease_lost": "Leases that ran out before the job ended, counted by who took the job over.",
}
FAILURES: Final[Mapping[str, str]] = {
    "failed": "Jobs that ended as failed: they are in the dead letters.",
    "retried": "Attempts that will be retried.",
    "unknown": "Attempts after which a job waits for a person, its outcome in doubt.",
}


class JobMeter:
    """The metrics of all jobs of one process, by kind of lane: push and pull."""

    def __init__(self, registry: CollectorRegistry, tallies: Mapping[str, Tally]) -> None:
        self._tallies = tallies
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        """Return the metrics as they stand."""
        for verb, doc in VERBS.items():
            yield self._counter(f"postdate_job_{verb}", doc, verb)
        claimed = CounterMetricFamily("postdate_job_claimed", "Jobs claimed.", labels=["kind"])
        for kind, tally in self._tallies.items():
            claimed.add_metric([kind], sum(tally.late))
        yield claimed
        for verb in FAILING:
            yield self._failures(verb)
        yield self._attempts()
        running = GaugeMetricFamily(
            "postdate_job_running",
            "Jobs that this process has claimed and not finished.",
            labels=["kind"],
        )
        running.add_metric(["push"], self._tallies["push"].running)
        yield running
        yield self._histogram(
            "postdate_job_lateness_seconds",
            "From the instant a job was due to its claim.",
            {kind: (tally.late, tally.late_sum) for kind, tally in self._tallies.items()},
        )
        yield self._histogram(
            "postdate_job_duration_seconds",
            "How long attempts took: the call (push), or from the claim to the report (pull).",
            {kind: (tally.durations, tally.duration_sum) for kind, tally in self._tallies.items()},
        )

    def _counter(self, name: str, doc: str, verb: str) -> Metric:
        family = CounterMetricFamily(name, doc, labels=["kind"])
        for kind, tally in self._tallies.items():
            family.add_metric([kind], tally.counts[verb])
        return family

    def _failures(self, verb: str) -> Metric:
        family = CounterMetricFamily(
            f"postdate_job_{verb}", FAILURES[verb], labels=["kind", "class"]
        )
        for kind, tally in self._tallies.items():
            for failure in CLASSES:
                family.add_metric([kind, failure], tally.classes[verb, failure])
        return family

    def _attempts(self) -> Metric:
        family = CounterMetricFamily(
            "postdate_job_attempts",
            "Attempts by class of failure, or `completed`, and by the tenant's `tenant.tier`.",
            labels=["kind", "class", "tier"],
        )
        for kind, tally in self._tallies.items():
            for (failure, tier), count in sorted(tally.attempts.items()):
                family.add_metric([kind, failure, tier], count)
        return family

    def _histogram(
        self, name: str, doc: str, found: Mapping[str, tuple[Sequence[int], float]]
    ) -> Metric:
        family = HistogramMetricFamily(name, doc, labels=["kind"])
        bounds = [*map(str, LATE_SECONDS), "+Inf"]
        for kind, (counts, total) in found.items():
            family.add_metric([kind], list(zip(bounds, accumulate(counts), strict=True)), total)
        return family
