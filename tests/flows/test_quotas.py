"""Quotas of a tenant: refused by a stable code, never remembered, counted beside the requests."""

from typing import Any
from uuid import uuid4

import pytest

from conftest import Answered, Api
from postdate.tenant.change.quota import PendingCounts

pytestmark = pytest.mark.own_database("its loops work for every tenant")

JOB = {"destination": {"type": "worker"}, "lane": "lane", "delay_seconds": 600}


async def limit(api: Api, **quotas: int) -> None:
    for name, value in quotas.items():
        assert (await api.call("PUT", f"/settings/quota.{name}", {"value": value})).status == 200
    await api.node.refresh_settings()


async def count(api: Api) -> None:
    await PendingCounts(api.node.database, api.node.quotas).run_once()


async def send(api: Api, path: str, body: Any, key: str | None = None) -> Answered:
    return await api.call("POST", path, body, headers={"Idempotency-Key": key or str(uuid4())})


def refused(answer: Answered, quota: int) -> bool:
    return (answer.status, answer.body["code"], answer.body["quota"]) == (
        *(409, "quota_exceeded"),
        quota,
    )


async def test_jobs_beyond_the_quota_are_refused_until_there_is_room(api: Api) -> None:
    await send(api, "/jobs", JOB)
    await limit(api, pending_jobs=3)
    await count(api)
    first = await send(api, "/jobs", JOB, "kept")
    batch = await api.call("POST", "/jobs/batch", {"jobs": [JOB, JOB]})
    assert [one["status"] for one in batch.body["outcomes"]] == [201, 409]
    assert refused(await send(api, "/jobs", JOB, "late"), 3)
    # What was answered before is answered again, and a refusal is not remembered.
    assert (await send(api, "/jobs", JOB, "kept")).body["job_id"] == first.body["job_id"]
    assert (await api.call("POST", f"/jobs/{first.body['job_id']}/cancel")).status == 200
    await count(api)
    assert (await send(api, "/jobs", JOB, "late")).status == 201


@pytest.fixture
async def rich(api: Api) -> Api:
    for account in ("alice", "bob"):
        await send(api, "/accounts", {"account_id": account})
    await send(api, "/accounts/alice/adjustments", {"amount": 100, "reason": "start"})
    return api


async def test_payments_beyond_the_quota_are_refused_until_there_is_room(rich: Api) -> None:
    order = {"from_account_id": "alice", "to_account_id": "bob", "amount": 1, "delay_seconds": 60}
    await limit(rich, pending_payments=2)
    await count(rich)
    made = [await send(rich, "/payments/schedule", order, f"{n}") for n in range(3)]
    assert [one.status for one in made] == [201, 201, 409]
    assert refused(made[2], 2)
    again = await send(rich, "/payments/schedule", order, "0")
    assert again.body["payment_id"] == made[0].body["payment_id"]
    await rich.call("DELETE", f"/payments/{made[0].body['payment_id']}/cancel")
    await count(rich)
    assert (await send(rich, "/payments/schedule", order, "2")).status == 201


async def test_accounts_and_schedules_have_quotas(rich: Api) -> None:
    rule = {"every_seconds": 60, "template": {"job": {"destination": {"type": "worker"}}}}
    assert (await send(rich, "/schedules", rule)).status == 201
    await limit(rich, accounts=3, schedules=1)
    assert refused(await send(rich, "/accounts", {"account_id": "carol"}), 3)
    assert refused(await send(rich, "/schedules", rule), 1)
    await limit(rich, accounts=4, schedules=0)
    assert (await send(rich, "/accounts", {"account_id": "carol"})).status == 201
    assert (await send(rich, "/schedules", rule)).status == 201
