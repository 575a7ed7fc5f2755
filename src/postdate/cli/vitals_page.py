"""Turn two readings of /metrics into the rates, percentiles and rows of `postdate top`."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from prometheus_client.parser import text_string_to_metric_families

from postdate.cli.top_facts import TenantFacts

KINDS: Final = {
    "push": "jobs that Postdate delivers",
    "pull": "jobs of workers",
    "payment": "payments",
    "schedule": "schedules",
    "delivery": "deliveries of events",
}
"""What people call the kinds of work that metrics name."""

_LATENESS: Final = {
    "payment": "postdate_payment_lateness_seconds",
    "schedule": "postdate_schedule_lateness_seconds",
}

Labels = tuple[tuple[str, str], ...]
Samples = Mapping[str, Mapping[Labels, float]]


class KindVitals(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of work: what waits, since when, how late it starts."""

    kind: str
    backlog: int
    oldest_seconds: float
    parked: int
    per_second: float
    late_p50_seconds: float | None
    late_p99_seconds: float | None


class VitalsPage(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that one screen shows."""

    url: str
    seconds: float
    nodes: dict[str, int]
    kinds: list[KindVitals]
    rates: dict[str, float]
    failures: dict[str, float]
    warnings: list[str]
    lanes: list[dict[str, Any]]
    tenant: TenantFacts | None = None


def parse(texts: Sequence[str]) -> Samples:
    """Parse the metrics of several processes: add counters, take any gauge."""
    found: dict[str, dict[Labels, float]] = defaultdict(dict)
    for text in texts:
        for family in text_string_to_metric_families(text):
            adds = family.type in {"counter", "histogram"}
            for sample in family.samples:
                labels = tuple(sorted(sample.labels.items()))
                before = found[sample.name].get(labels, 0.0)
                found[sample.name][labels] = (
                    before + sample.value if adds else max(before, sample.value)
                )
    return found


def page(
    url: str,
    before: Samples,
    after: Samples,
    seconds: float,
    lanes: list[dict[str, Any]],
    tenant: TenantFacts | None = None,
) -> VitalsPage:
    """Build a page from two readings that are this many seconds apart."""
    grown = _grown(before, after)
    return VitalsPage(
        url=url,
        seconds=seconds,
        nodes={dict(k)["role"]: int(v) for k, v in after.get("postdate_nodes", {}).items()},
        kinds=[_kind(kind, grown, after, seconds) for kind in KINDS],
        rates={name: _total(grown, metric) / seconds for name, metric in _RATES.items()},
        failures=_failures(grown, seconds),
        warnings=_warnings(after),
        lanes=lanes,
        tenant=tenant,
    )


_RATES: Final = {
    "jobs accepted": "postdate_job_accepted_total",
    "jobs completed": "postdate_job_completed_total",
    "jobs failed": "postdate_job_failed_total",
    "payments accepted": "postdate_payment_accepted_total",
    "payments settled": "postdate_payment_settled_total",
    "requests": "postdate_http_requests_total",
    "events sealed": "postdate_event_sealed_total",
}


def _grown(before: Samples, after: Samples) -> Samples:
    return {
        name: {
            labels: max(0.0, value - before.get(name, {}).get(labels, 0.0))
            for labels, value in values.items()
        }
        for name, values in after.items()
    }


def _total(samples: Samples, name: str) -> float:
    return sum(samples.get(name, {}).values())


def _of(samples: Samples, name: str, **wanted: str) -> float:
    return sum(
        value
        for labels, value in samples.get(name, {}).items()
        if wanted.items() <= dict(labels).items()
    )


def _kind(kind: str, grown: Samples, after: Samples, seconds: float) -> KindVitals:
    name = _LATENESS.get(kind, "postdate_job_lateness_seconds")
    wanted = {} if kind in _LATENESS else {"kind": kind}
    buckets: dict[float, float] = defaultdict(float)
    for labels, value in grown.get(f"{name}_bucket", {}).items():
        if wanted.items() <= dict(labels).items():
            buckets[float(dict(labels)["le"])] += value
    return KindVitals(
        kind=kind,
        backlog=int(_of(after, "postdate_backlog", kind=kind)),
        oldest_seconds=_of(after, "postdate_backlog_oldest_seconds", kind=kind),
        parked=int(_of(after, "postdate_parked", kind=kind)),
        per_second=max(buckets.values(), default=0.0) / seconds,
        late_p50_seconds=quantile(buckets, 0.5),
        late_p99_seconds=quantile(buckets, 0.99),
    )


def quantile(buckets: Mapping[float, float], share: float) -> float | None:
    """Return a quantile of a histogram, interpolated linearly; None without counts."""
    total = max(buckets.values(), default=0.0)
    if not total:
        return None
    low, reached = 0.0, 0.0
    for bound in sorted(buckets):
        count = buckets[bound]
        if count >= share * total:
            if bound == float("inf") or count == reached:
                return low
            return low + (bound - low) * (share * total - reached) / (count - reached)
        low, reached = bound, count
    return low


def _failures(grown: Samples, seconds: float) -> dict[str, float]:
    found: dict[str, float] = defaultdict(float)
    for verb in ("failed", "retried", "unknown"):
        for labels, value in grown.get(f"postdate_job_{verb}_total", {}).items():
            if value:
                found[f"{verb} {dict(labels)['class']}"] += value / seconds
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def _warnings(after: Samples) -> list[str]:
    """Return the warnings that an operator should see first."""
    warnings = []
    if _of(after, "postdate_loop_blocked", loop="settlement"):
        warnings.append("settlement is stopped: see `postdate settlement status`")
    warnings += [
        f"{value:.0f} {KINDS.get(dict(labels)['kind'], dict(labels)['kind'])} overdue: "
        "nobody has touched them"
        for labels, value in after.get("postdate_overdue", {}).items()
        if value
    ]
    for labels in after.get("postdate_snapshot_pinned_seconds", {}):
        pinned = dict(labels)
        warnings.append(
            f"{pinned['kind']} {pinned['name']} ({pinned['login']}) pins the oldest snapshot"
        )
    if opened := _of(after, "postdate_breaker_destinations", state="open"):
        warnings.append(f"{opened:.0f} destinations are held back")
    for name, values in (
        ("postdate_proof_findings", after.get("postdate_proof_findings", {})),
        ("postdate_audit_findings", after.get("postdate_audit_findings", {})),
    ):
        warnings += [
            f"{next(iter(dict(labels).values()))}: {value:.0f} findings ({name})"
            for labels, value in values.items()
            if value
        ]
    if (lag := _total(after, "postdate_event_unsealed_seconds")) > 5:  # noqa: PLR2004 - seconds
        warnings.append(f"the oldest event has waited {lag:.0f} s to be sealed")
    warnings += [
        f"no live node has the role {dict(labels)['role']}"
        for labels, value in after.get("postdate_nodes", {}).items()
        if not value
    ]
    return warnings
