"""Values that no column, clock or parser has room for are refused; none is a failure of ours."""

from base64 import urlsafe_b64encode
from typing import Any

import pytest

from conftest import INTERNAL_TOKEN, Api

HUGE = "9" * 5000
NUMBERS = ("1e999", "-1e999", HUGE, f"-{HUGE}", f"{HUGE}.5", f"1e{HUGE}")
WORKER = '"destination": {"type": "worker"}'


async def send(api: Api, method: str, path: str, body: str, key: str | None = "k") -> Any:
    """Send a body as it is; give the status and the code."""
    headers = {
        "Authorization": f"Bearer {api.key}",
        "Content-Type": "application/json",
        "X-Internal-Auth": INTERNAL_TOKEN,
    }
    if key is not None:
        headers["Idempotency-Key"] = key
    url = f"{api.url}/api/v1{path}"
    async with api.session.request(method, url, data=body, headers=headers) as answer:
        return answer.status, await answer.json()


BODIES = [
    ("POST", "/jobs", f'{{{WORKER}, "payload": %s}}'),
    ("POST", "/jobs", f'{{{WORKER}, "payload": {{"a": [%s]}}}}'),
    ("POST", "/jobs", f'{{{WORKER}, "metadata": {{"a": %s}}}}'),
    ("POST", "/jobs", f'{{{WORKER}, "delay_seconds": %s}}'),
    ("POST", "/jobs/batch", f'{{"jobs": [{{{WORKER}, "payload": %s}}]}}'),
    (
        "POST",
        "/schedules",
        f'{{"every_seconds": 60, "template": {{"job": {{{WORKER}, "payload": %s}}}}}}',
    ),
    ("POST", "/accounts/alice/adjustments", '{"amount": %s, "reason": "r"}'),
    (
        "POST",
        "/payments/schedule",
        '{"from_account_id": "a", "to_account_id": "b", "amount": %s, "delay_seconds": 5}',
    ),
    ("POST", "/payments/batch", '{"payments": [%s]}'),
    ("POST", f"/leases/{'0' * 8}-0000-0000-0000-{'0' * 12}/complete", '{"token": 1, "result": %s}'),
    ("POST", "/lanes/any/claim", '{"wait_seconds": %s}'),
    ("PATCH", "/lanes/any", '{"rate_per_second": %s}'),
    ("PUT", "/settings/job.max_attempts", '{"value": %s}'),
    ("POST", "/keys", '{"scopes": ["jobs:read"], "max_amount": %s}'),
]


@pytest.mark.parametrize(("method", "path", "body"), BODIES, ids=lambda value: str(value)[:40])
async def test_a_number_too_large_for_anybody_is_refused(
    api: Api, method: str, path: str, body: str
) -> None:
    for number in NUMBERS:
        for key in ("k", None):
            status, answer = await send(api, method, path, body % number, key)
            assert 400 <= status < 500, (number[:9], answer)
            assert answer["code"] in {"invalid_field", "malformed_json", "idempotency_key_missing"}


@pytest.mark.parametrize("name", ["rate.key_per_second", "job.max_attempts"])
async def test_a_setting_of_more_digits_than_a_float_has_is_refused(api: Api, name: str) -> None:
    for digits in ("9" * 400, "-" + "9" * 400):
        status, answer = await send(api, "PUT", f"/settings/{name}", f'{{"value": {digits}}}')
        assert (status, answer["code"]) == (422, "invalid_field")


async def test_a_large_number_that_fits_is_kept_as_it_came(api: Api) -> None:
    kept = "123456789012345678901234567890"
    status, made = await send(api, "POST", "/jobs", f'{{{WORKER}, "payload": {kept}}}')
    assert status == 201
    url = f"{api.url}/api/v1/jobs/{made['job_id']}"
    async with api.session.get(url, headers={"Authorization": f"Bearer {api.key}"}) as answer:
        assert f'"payload":{kept}' in await answer.text()


def cursor(text: str) -> str:
    return urlsafe_b64encode(text.encode()).decode().rstrip("=")


LISTS = ("/jobs", "/payments", "/accounts", "/schedules", "/events", "/dead-letters", "/audit")
CURSORS = [
    cursor("1e999"),
    cursor(HUGE),
    cursor(str(2**63)),
    cursor(str(-(2**63) - 1)),
    cursor(f'["{"9" * 400}-01-01T00:00:00Z", 1]'),
    cursor('["9999-12-31T23:59:59-23:59", "00000000-0000-0000-0000-000000000000"]'),
    cursor("[" * 500),
    cursor('"\\u0000"'),
    cursor('"\\ud800"'),
    cursor('["\\u0000","\\u0000"]'),
    "A" * 5000,
    "%00",
    "%ff",
    "=",
    "\u00e9",
]


@pytest.mark.parametrize("path", LISTS)
async def test_a_cursor_that_is_not_ours_is_refused(api: Api, path: str) -> None:
    name = "after" if path == "/events" else "cursor"
    for given in CURSORS:
        answer = await api.call("GET", f"{path}?{name}={given}")
        assert answer.status in {200, 422}, (given[:20], answer.body)


QUERIES = [
    "limit=1e999",
    f"limit={HUGE}",
    "limit=-1",
    f"limit={2**63}",
    "limit=%00",
    "limit=nan",
    "status=%00",
    "lane=%00",
    "lane=%ed%a0%80",
    "account_id=%00",
    "types=%00",
    "subject=%00",
    "wait_seconds=inf",
    "wait_seconds=nan",
    "at=9999-12-31T23:59:59-23:59",
    "at=0001-01-01T00:00:00%2B23:59",
    "min_amount=99999999999999999999",
    "=",
    "&&&&",
    "%",
    "a" * 3000,
]


@pytest.mark.parametrize("path", [*LISTS, "/accounts/alice", "/accounts/alice/entries"])
async def test_a_query_with_odd_values_is_refused_or_served(api: Api, path: str) -> None:
    for query in QUERIES:
        answer = await api.call("GET", f"{path}?{query}")
        assert answer.status < 500, (query[:30], answer.body)


async def test_odd_paths_name_nothing(api: Api) -> None:
    for odd in ("%00", "%ff", "%ed%a0%80", "a" * 5000, "%2e%2e%2f", "\u00e9"):
        for path in ("/accounts/", "/lanes/", "/destinations/", "/calendars/", "/jobs/"):
            answer = await api.call("GET", f"{path}{odd}")
            assert answer.status in {404, 422}, (path, odd[:9], answer.body)
