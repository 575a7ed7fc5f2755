"""What made-up requests once found: each stays found."""

from typing import Any
from uuid import UUID, uuid4

import pytest

from conftest import INTERNAL_TOKEN, Api

WORKER = {"type": "worker"}
NOBODY = UUID(int=7)
LEASE = f"/leases/{NOBODY}/fail"
ODD = ("7010-08-24T08:18:46%2B18:35", "0001-01-01T00:00:00%2B23:59", "9999-12-31T23:59:59-23:59")
EXECUTE = f"/internal/payments/{NOBODY}/execute"


@pytest.mark.parametrize(
    ("method", "path", "body", "field"),
    [
        ("POST", "/jobs", {"destination": WORKER, "content_type": "a/b\n"}, "content_type"),
        ("POST", LEASE, {"token": 1, "error": "e", "code": "late\n"}, "code"),
        ("POST", EXECUTE, {"execution_id": "x\n"}, "execution_id"),
        ("PATCH", "/lanes/any", {"rate_per_second": 1e-113}, "rate_per_second"),
        ("PATCH", "/destinations/any", {"rate_per_second": 1e-113}, "rate_per_second"),
        ("POST", LEASE, {"token": 2**53, "error": "e"}, "token"),
        ("GET", "/jobs?due_after=0", None, "due_after"),
        ("GET", "/jobs?due_before=1e9", None, "due_before"),
    ],
)
async def test_it_is_refused_by_name(
    api: Api, method: str, path: str, body: Any, field: str
) -> None:
    headers = {"X-Internal-Auth": INTERNAL_TOKEN}
    answer = await api.call(method, path, body, headers=headers)
    assert (answer.status, answer.body["code"]) == (422, "invalid_field")
    assert field in answer.body["field"]


async def test_an_item_of_a_batch_is_refused_by_name(api: Api) -> None:
    item = {"destination": WORKER, "idempotency_key": "a\n"}
    [outcome] = (await api.call("POST", "/jobs/batch", {"jobs": [item]})).body["outcomes"]
    assert (outcome["status"], outcome["problem"]["code"]) == (422, "invalid_field")
    assert outcome["problem"]["field"] == "idempotency_key"


@pytest.mark.parametrize("path", ["/jobs?lane=default&", "/dead-letters?"])
@pytest.mark.parametrize(
    "at",
    ["7010-08-24T08:18:46%2B18:35", "0001-01-01T00:00:00%2B23:59", "9999-12-31T23:59:59-23:59"],
)
async def test_an_instant_may_be_as_odd_as_it_likes(api: Api, path: str, at: str) -> None:
    for bound in ("due_after", "due_before"):
        assert (await api.call("GET", f"{path}{bound}={at}")).status == 200


async def test_an_instant_that_cannot_be_stored_is_refused(api: Api) -> None:
    body = {"scopes": ["jobs:read"], "expires_at": "9999-12-31T23:59:59-23:59"}
    answer = await api.call("POST", "/keys", body)
    assert (answer.status, answer.body["code"]) == (422, "invalid_field")


async def test_null_and_absent_are_two_requests_under_one_key(api: Api) -> None:
    key = {"Idempotency-Key": str(uuid4())}
    first = await api.call("POST", "/jobs", {"destination": WORKER}, headers=key)
    again = await api.call("POST", "/jobs", {"destination": WORKER, "payload": None}, headers=key)
    assert first.status == 201
    assert (again.status, again.body["code"]) == (422, "idempotency_key_reused")
    assert again.body["differs"] == ["payload"]
