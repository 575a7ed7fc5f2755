"""Metrics of proofs."""

from collections.abc import Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_SECONDS: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15, 60, 300)


class ProofMeter:
    """Counters and gauges of one process."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self._findings = Gauge(
            "postdate_proof_findings",
            "Contradictions that the last round found in each bucket, by finding.",
            ["finding"],
            registry=registry,
        )
        self._steps = Counter(
            "postdate_proof_steps", "Buckets that this process has proved.", registry=registry
        )
        self._seconds = Histogram(
            "postdate_proof_step_seconds",
            "How long proving one bucket took.",
            registry=registry,
            buckets=_SECONDS,
        )
        self._events = Counter(
            "postdate_proof_chain_events",
            "Sealed events that this process has compared with what they seal.",
            registry=registry,
        )
        self._known: set[str] = set()

    def proved(self, seconds: float, events: int) -> None:
        """Count one bucket."""
        self._steps.inc()
        self._seconds.observe(seconds)
        self._events.inc(events)

    def show_findings(self, findings: Mapping[str, int]) -> None:
        """Set the findings of the last rounds; resolved kinds drop to 0."""
        self._known |= set(findings)
        for name in self._known:
            self._findings.labels(name).set(findings.get(name, 0))
