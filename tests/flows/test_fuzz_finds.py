"""What made-up requests once found: each stays found."""

from typing import Any
from uuid import uuid4

import pytest

from conftest import INTERNAL_TOKEN, Api

WORKER = {"type": "worker"}
LEASE = f"/leases/{uuid4()}/fail"
EXECUTE = f"/internal/payments/{uuid4()}/execute"


@pytest.mark.parametrize(
    ("method", "path", "body", "field"),
    [
        ("POST", "/jobs", {"destination": WORKER, "content_type": "a/b\n"}, "content_type"),
        ("POST", "/jobs/batch", {"jobs": [{"destination": WORKER, "idempotency_key": "a\n"}]}, ""),
        ("POST", LEASE, {"token": 1, "error": "e", "code": "late\n"}, "code"),
        ("POST", EXECUTE, {"execution_id": "x\n"}, "execution_id"),
        ("PATCH", "/lanes/any", {"rate_per_second": 1e-113}, "rate_per_second"),
        ("PATCH", "/destinations/any", {"rate_per_second": 1e-113}, "rate_per_second"),
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


async def test_null_and_absent_are_two_requests_under_one_key(api: Api) -> None:
    key = {"Idempotency-Key": str(uuid4())}
    first = await api.call("POST", "/jobs", {"destination": WORKER}, headers=key)
    again = await api.call("POST", "/jobs", {"destination": WORKER, "payload": None}, headers=key)
    assert first.status == 201
    assert (again.status, again.body["code"]) == (422, "idempotency_key_reused")
    assert again.body["differs"] == ["payload"]
