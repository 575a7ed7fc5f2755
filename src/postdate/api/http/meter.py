"""Count and time requests by route template, method and status."""

from prometheus_client import CollectorRegistry, Counter, Histogram

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_LABELS = ("route", "method", "status")


class HttpMeter:
    """The request metrics, with their label lookups remembered."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._requests = Counter(
            "postdate_http_requests", "Requests answered.", _LABELS, registry=registry
        )
        self._seconds = Histogram(
            "postdate_http_request_seconds",
            "Time from the first byte of the request to the last of the answer.",
            _LABELS,
            registry=registry,
            buckets=_SECONDS,
        )
        self._children: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}

    def count(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count one request. `route` and `method` must come from a bounded set."""
        key = (route, method, status)
        children = self._children.get(key)
        if children is None:
            labels = (route, method, str(status))
            children = (self._requests.labels(*labels), self._seconds.labels(*labels))
            self._children[key] = children
        children[0].inc()
        children[1].observe(seconds)
