"""Workers over HTTP: claim with a long poll, renew, complete, fail; a lost lease is a 409."""

import asyncio
import time
from typing import Any

import aiohttp

from conftest import Answered, Api, Clock, eventually
from postdate.tenant.change.tenant import Tenants

POLICY = {"backoff": "fixed", "initial_seconds": 60, "jitter": 0, "max_attempts": 2}


async def add(api: Api, lane: str = "mail", **fields: Any) -> str:
    body = {"destination": {"type": "worker"}, "lane": lane, "payload": {"n": 1}, **fields}
    answered = await api.call("POST", "/jobs", body)
    assert answered.status == 201, answered.body
    return str(answered.body["job_id"])


async def claim(api: Api, lane: str = "mail", **fields: Any) -> list[dict[str, Any]]:
    answered = await api.call("POST", f"/lanes/{lane}/claim", {"max": 10, **fields})
    assert answered.status == 200, answered.body
    leases: list[dict[str, Any]] = answered.body["leases"]
    return leases


async def say(api: Api, verb: str, lease: dict[str, Any], **fields: Any) -> Answered:
    body = {"token": lease["token"], **fields}
    return await api.call("POST", f"/leases/{lease['job_id']}/{verb}", body)


async def test_a_worker_claims_and_completes_a_job(api: Api) -> None:
    job_id = await add(api, metadata={"to": "x"})
    [lease] = await claim(api, lease_seconds=60)
    assert lease["job_id"] == job_id
    assert (lease["attempt"], lease["payload"]) == (1, {"n": 1})
    assert 0 < lease["token"] < 2**53
    assert lease["metadata"] == {"to": "x"}
    assert await claim(api) == []
    assert (await api.call("GET", f"/jobs/{job_id}")).body["status"] == "RUNNING"
    done = await say(api, "complete", lease, result={"sent": True})
    assert (done.status, done.body) == (200, {"job_id": job_id, "status": "COMPLETED"})
    ended = (await api.call("GET", f"/jobs/{job_id}")).body
    assert (ended["status"], ended["result"]) == ("COMPLETED", {"sent": True})
    listed = (await api.call("GET", "/jobs?status=COMPLETED")).body["jobs"]
    assert "result" not in listed[0]


async def test_a_repeated_report_gets_the_same_answer_and_a_stale_one_409(api: Api) -> None:
    await add(api)
    [lease] = await claim(api)
    first = await say(api, "complete", lease)
    again = await say(api, "complete", lease)
    assert (again.status, again.body) == (first.status, first.body)
    for verb, fields in (("fail", {"error": "no"}), ("renew", {})):
        answered = await say(api, verb, lease, **fields)
        assert (answered.status, answered.body["code"]) == (409, "lease_lost")


async def test_a_lost_lease_cannot_end_the_newer_attempt(api: Api, clock: Clock) -> None:
    job_id = await add(api)
    [old] = await claim(api, lease_seconds=5)
    await clock.advance(6)
    [new] = await claim(api, lease_seconds=60)
    assert new["attempt"] == 2
    assert new["token"] > old["token"]
    for verb, fields in (("complete", {}), ("fail", {"error": "no"}), ("renew", {})):
        answered = await say(api, verb, old, **fields)
        assert (answered.status, answered.body["code"]) == (409, "lease_lost")
    assert (await api.call("GET", f"/jobs/{job_id}")).body["status"] == "RUNNING"
    assert (await say(api, "complete", new)).status == 200


async def test_a_renewed_lease_holds_longer(api: Api, clock: Clock) -> None:
    await add(api)
    [lease] = await claim(api, lease_seconds=5)
    renewed = await say(api, "renew", lease, lease_seconds=100)
    assert renewed.status == 200
    assert renewed.body["lease_until"] > lease["lease_until"]
    await clock.advance(50)
    assert await claim(api) == []
    assert (await say(api, "complete", lease)).status == 200


async def test_a_failure_is_retried_and_then_final(api: Api, clock: Clock) -> None:
    job_id = await add(api, retry=POLICY)
    [lease] = await claim(api)
    failed = await say(api, "fail", lease, error="smtp is down", code="smtp_down")
    assert failed.body["status"] == "PENDING"
    assert 59 < failed.body["retry_in_seconds"] <= 60
    assert await claim(api) == []
    await clock.advance(61)
    [second] = await claim(api)
    assert second["attempt"] == 2
    assert second["token"] > lease["token"]
    last = await say(api, "fail", second, error="still down", code="smtp_down")
    assert last.body == {"job_id": job_id, "status": "FAILED"}


async def test_a_released_lease_is_due_again_and_costs_no_attempt(api: Api) -> None:
    await add(api, lane="released", retry={"max_attempts": 1})
    [lease] = await claim(api, "released")
    assert (await say(api, "release", lease)).body["status"] == "PENDING"
    [again] = await claim(api, "released", wait_seconds=10)
    assert (again["attempt"], again["max_attempts"]) == (1, 1)
    assert again["token"] > lease["token"]
    stale = await say(api, "release", lease)
    assert (stale.status, stale.body["code"]) == (409, "lease_lost")
    assert (await say(api, "complete", again)).body["status"] == "COMPLETED"


async def test_a_stale_report_beside_a_good_one_costs_it_nothing(api: Api, clock: Clock) -> None:
    # Reports that come together share a transaction; the stale one came first and counted.
    for number in range(4):
        lane = f"beside-{number}"
        await add(api, lane=lane)
        [old] = await claim(api, lane, lease_seconds=5)
        await clock.advance(6)
        [new] = await claim(api, lane, lease_seconds=60)
        stale, good = await asyncio.gather(
            say(api, "release", old), say(api, "complete", new, result=number)
        )
        assert (stale.status, stale.body["code"]) == (409, "lease_lost")
        assert (good.status, good.body.get("status")) == (200, "COMPLETED"), good.body


async def test_a_released_job_is_found_below_what_others_saw(api: Api) -> None:
    await add(api, lane="marked")
    [lease] = await claim(api, "marked", lease_seconds=600)
    assert await claim(api, "marked", wait_seconds=0.2) == []
    began = time.monotonic()
    waiting = asyncio.create_task(claim(api, "marked", wait_seconds=10))
    assert (await say(api, "release", lease)).status == 200
    [again] = await waiting
    assert again["token"] > lease["token"]
    assert time.monotonic() - began < 5


async def test_not_retryable_ends_at_once_and_unknown_is_held(api: Api) -> None:
    await add(api)
    [lease] = await claim(api)
    ended = await say(api, "fail", lease, error="no such address", retryable=False)
    assert ended.body["status"] == "FAILED"
    await add(api, retry={"on_unknown": "hold"})
    [doubtful] = await claim(api)
    held = await say(api, "fail", doubtful, error="who knows", unknown=True)
    assert held.body["status"] == "UNKNOWN"


async def test_a_waiting_claim_is_woken_by_a_new_job(api: Api) -> None:
    await add(api)
    assert len(await claim(api)) == 1
    began = time.monotonic()
    waiting = asyncio.create_task(claim(api, wait_seconds=20))
    job_id = await add(api, delay_seconds=0.2)
    [lease] = await waiting
    assert lease["job_id"] == job_id
    assert time.monotonic() - began < 5


async def test_a_claim_before_the_first_job_of_its_lane_waits_for_it(api: Api) -> None:
    waiting = asyncio.create_task(claim(api, "fresh", wait_seconds=20))
    await add(api, "fresh")
    assert len(await waiting) == 1


async def test_a_claim_that_nobody_waits_for_takes_nothing(api: Api) -> None:
    job_id = await add(api, delay_seconds=1.0)
    url = f"{api.url}/api/v1/lanes/mail/claim"
    headers = {"Authorization": f"Bearer {api.key}"}
    async with aiohttp.ClientSession() as session:
        with_timeout = aiohttp.ClientTimeout(total=0.3)
        body = {"wait_seconds": 20}
        try:
            async with session.post(url, json=body, headers=headers, timeout=with_timeout):
                raise AssertionError("the job is not due yet")
        except TimeoutError:
            pass

    async def claimed() -> list[dict[str, Any]]:
        return await claim(api)

    [lease] = await eventually(claimed)
    assert (lease["job_id"], lease["attempt"]) == (job_id, 1)


async def test_webhook_jobs_are_not_handed_to_workers(api: Api) -> None:
    hook = {"type": "webhook", "url": "http://127.0.0.1:8099/x"}
    added = await api.call("POST", "/jobs", {"destination": hook, "lane": "mail"})
    assert added.status == 201, added.body
    assert await claim(api) == []


async def test_opaque_payloads_come_as_base64(api: Api) -> None:
    body = {"destination": {"type": "worker"}, "lane": "mail", "payload_base64": "AAE="}
    assert (await api.call("POST", "/jobs", body)).status == 201
    [lease] = await claim(api)
    assert lease["payload_base64"] == "AAE="
    assert "payload" not in lease


async def test_a_lanes_limit_holds_for_leases(api: Api, clock: Clock) -> None:
    for _ in range(3):
        await add(api)
    node = api.node
    tenant_id = max(node.lanes.by_tenant)
    [lane] = await node.lanes.of_tenant(tenant_id, "mail")
    await node.database.writer.execute(
        "UPDATE lane SET max_running = 2, changed_at = clock() WHERE tenant_id = $1", tenant_id
    )
    await node.lanes.refresh()
    assert lane.kind == "pull"
    first, second = await claim(api, lease_seconds=5)
    assert await claim(api) == []
    assert (await say(api, "complete", first)).status == 200
    [third] = await claim(api, lease_seconds=60)
    assert await claim(api) == []
    await clock.advance(6)
    [again] = await claim(api, lease_seconds=60)
    assert again["job_id"] == second["job_id"]
    assert (await say(api, "complete", third)).status == 200


async def test_bad_input_and_foreign_jobs_are_refused(api: Api) -> None:
    await add(api)
    [lease] = await claim(api)
    other = await api.new_key("jobs:read")
    assert (await api.call("POST", "/lanes/mail/claim", {}, key=other)).status == 403
    for body in ({"max": 0}, {"max": 101}, {"lease_seconds": 0}, {"wait_seconds": 99}, {"x": 1}):
        assert (await api.call("POST", "/lanes/mail/claim", body)).status == 422
    wrong = await api.call("POST", "/lanes/no%20spaces/claim", {})
    assert (wrong.status, wrong.body["field"]) == (422, "lane")
    missing = {**lease, "job_id": "01900000-0000-7000-8000-000000000000"}
    assert (await say(api, "complete", missing)).status == 404
    assert (await say(api, "complete", {**lease, "token": 2})).status == 409


async def test_another_tenants_lease_looks_missing(api: Api, edge_server: Api) -> None:
    await add(api)
    [lease] = await claim(api)
    tenants = Tenants(edge_server.node.database)
    await tenants.create("stranger")
    key = (await tenants.issue("stranger", ["admin"])).key
    for verb in ("complete", "renew"):
        answered = await api.call(
            "POST", f"/leases/{lease['job_id']}/{verb}", {"token": lease["token"]}, key=key
        )
        assert answered.status == 404
    assert (await say(api, "complete", lease)).status == 200


async def test_reports_and_renewals_of_one_lease_at_once_wait_for_each_other(api: Api) -> None:
    """A worker renews in the background while its function reports progress."""
    await add(api)
    [lease] = await claim(api)
    said = [say(api, "progress", lease, percent=n, log=[str(n)]) for n in range(6)]
    renewed = [say(api, "renew", lease) for _ in range(3)]
    answers = await asyncio.gather(*said, *renewed)
    assert [each.status for each in answers] == [200] * 9
    shown = (await api.call("GET", f"/jobs/{lease['job_id']}")).body["progress"]
    assert sorted(shown["log"]) == [str(n) for n in range(6)]
