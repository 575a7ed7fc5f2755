"""Count and time requests by route template, method and status."""

from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate
from typing import Final

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily

_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_BOUNDS: Final = (*(str(float(bound)) for bound in _SECONDS), "+Inf")
_LABELS: Final = ("route", "method", "status")


class _Timings:
    """The requests of one route, method and status: how many within each bound, and their sum."""

    __slots__ = ("counts", "seconds")

    def __init__(self) -> None:
        self.counts = [0] * len(_BOUNDS)
        self.seconds = 0.0


class HttpMeter:
    """The request metrics: counted as plain numbers, and put into shape when they are asked for."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._timings: dict[tuple[str, str, int], _Timings] = {}
        registry.register(self)

    def count(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count one request. `route` and `method` must come from a bounded set."""
        timings = self._timings.get((route, method, status))
        if timings is None:
            timings = self._timings[route, method, status] = _Timings()
        timings.counts[bisect_left(_SECONDS, seconds)] += 1
        timings.seconds += seconds

    def collect(self) -> Iterator[Metric]:
        """Return what was counted."""
        requests = CounterMetricFamily(
            "postdate_http_requests", "Requests answered.", labels=_LABELS
        )
        times = HistogramMetricFamily(
            "postdate_http_request_seconds",
            "Time from the first byte of the request to the last of the answer.",
            labels=_LABELS,
        )
        for (route, method, status), timings in list(self._timings.items()):
            labels, within = (route, method, str(status)), list(accumulate(timings.counts))
            requests.add_metric(labels, within[-1])
            buckets = list(zip(_BOUNDS, within, strict=True))
            times.add_metric(labels, buckets, sum_value=timings.seconds)
        yield from (requests, times)
