"""What a worker counts: plain numbers, made into metrics only when somebody asks."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import accumulate
from typing import Final

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily

from postdate.model.verdict import DONE, End, Keep, Move, Verdict, event_type

LATENESS_SECONDS: Final = (
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
)

VERBS: Final[Mapping[str, str]] = {
    "claimed": "Jobs claimed.",
    "completed": "Jobs completed.",
    "failed": "Jobs that ended as failed.",
    "retried": "Attempts that will be followed by another.",
    "unknown": "Jobs whose outcome is in doubt.",
    "throttled": "Jobs put off without an attempt.",
    "kept": "Jobs that go on elsewhere, to be acknowledged later.",
    "lease_lost": "Leases that were no longer ours at the end.",
}


class Meter:
    """Counts of one process, under the names of the verbs."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._counts: Counter[str] = Counter()
        self._late = [0] * (len(LATENESS_SECONDS) + 1)
        self._late_sum = 0.0
        registry.register(self)

    def claimed(self, late_seconds: float) -> None:
        """Count a claim, so long after the job was due."""
        self._late[bisect_left(LATENESS_SECONDS, late_seconds)] += 1
        self._late_sum += late_seconds

    def lost(self) -> None:
        """Count a lease that was no longer ours."""
        self._counts["lease_lost"] += 1

    def recorded(self, verdict: Verdict) -> None:
        """Count a verdict that was written."""
        verb = "completed" if verdict is DONE else _verb(verdict)
        self._counts[verb] += 1

    def collect(self) -> Iterator[Metric]:
        """Give the metrics as they stand."""
        counts = self._counts | Counter(claimed=sum(self._late))
        for verb, doc in VERBS.items():
            yield CounterMetricFamily(f"postdate_job_{verb}", doc, value=counts[verb])
        bounds = [*map(str, LATENESS_SECONDS), "+Inf"]
        yield HistogramMetricFamily(
            "postdate_job_lateness_seconds",
            "From the instant a job was due to its claim.",
            buckets=list(zip(bounds, accumulate(self._late), strict=True)),
            sum_value=self._late_sum,
        )


def _verb(verdict: Verdict) -> str:
    match verdict:
        case Keep():
            return "kept"
        case End() | Move():
            kind = event_type(verdict)
            return kind.removeprefix("job.") if kind else "throttled"
