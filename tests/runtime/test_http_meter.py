"""What the meter of requests tells Prometheus."""

from prometheus_client import CollectorRegistry, generate_latest

from postdate.http.meter import HttpMeter


def test_requests_are_counted_and_timed_by_route_method_and_status() -> None:
    registry = CollectorRegistry()
    meter = HttpMeter(registry)
    for seconds in (0.0005, 0.001, 0.03, 60):
        meter.count("/api/v1/jobs", "GET", 200, seconds)
    meter.count("/api/v1/jobs", "GET", 404, 0.2)
    labels = {"route": "/api/v1/jobs", "method": "GET", "status": "200"}

    def value(name: str, **more: str) -> float | None:
        return registry.get_sample_value(name, labels | more)

    assert value("postdate_http_requests_total") == 4
    assert value("postdate_http_request_seconds_count") == 4
    assert value("postdate_http_request_seconds_sum") == 60.0315
    assert value("postdate_http_request_seconds_bucket", le="0.001") == 2
    assert value("postdate_http_request_seconds_bucket", le="0.025") == 2
    assert value("postdate_http_request_seconds_bucket", le="0.05") == 3
    assert value("postdate_http_request_seconds_bucket", le="30.0") == 3
    assert value("postdate_http_request_seconds_bucket", le="+Inf") == 4
    assert b'status="404"' in generate_latest(registry)
