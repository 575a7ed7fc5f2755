from conftest import Api
from postdate_lab.bench.load import Load, LoadRequest


async def test_a_load_counts_answers_and_times(api: Api) -> None:
    body = b'{"account_id": "one"}'
    requests = [LoadRequest("POST", "/api/v1/accounts", body)] * 20
    report = await Load(requests).run(api.url, api.key, connections=4)
    assert (report.requests, report.statuses) == (20, {201: 1, 409: 19})
    assert 0 < report.p50_ms <= report.p95_ms <= report.p99_ms


async def test_a_load_keeps_its_rate(api: Api) -> None:
    requests = [LoadRequest("GET", "/api/v1/whoami")] * 20
    report = await Load(requests, per_second=100).run(api.url, api.key, connections=4)
    assert report.statuses == {200: 20}
    assert report.seconds >= 0.19
