"""Attempts and lateness of the busiest tenants by name, and of all others together."""

from collections.abc import Iterator, Mapping
from itertools import accumulate
from typing import Final

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily

from postdate.monitor.spec.activity import LATE_SECONDS
from postdate.monitor.spec.tenant_share import TENANT_BOUNDS, TenantCounts, TenantShares

REST: Final = "the rest"
"""No tenant can have this name: names have no spaces."""


def render_tenants(shares: TenantShares, names: Mapping[int, str]) -> Iterator[Metric]:
    """Make the families; a tenant whose name is not known yet is shown by its number."""
    attempts = CounterMetricFamily(
        "postdate_tenant_attempts",
        "Attempts of jobs and executions of payments, by tenant; only the 20 busiest are named.",
        labels=["tenant", "kind"],
    )
    late = HistogramMetricFamily(
        "postdate_tenant_lateness_seconds",
        "How late attempts of jobs began and payments ended, by tenant; the 20 busiest are named.",
        labels=["tenant"],
    )
    rows = [(names.get(each, str(each)), counts) for each, counts in shares.named.items()]
    for name, counts in [*rows, (REST, shares.rest)]:
        for kind in ("job", "payment"):
            attempts.add_metric([name, kind], counts.attempts[kind])
        late.add_metric([name], _buckets(counts), counts.late_sum)
    yield attempts
    yield late


def _buckets(counts: TenantCounts) -> list[tuple[str, int]]:
    upto = list(accumulate(counts.late))
    bounds = [(str(LATE_SECONDS[lane_bucket]), upto[lane_bucket]) for lane_bucket in TENANT_BOUNDS]
    return [*bounds, ("+Inf", upto[-1])]
