"""Priority and key of a job: accepted, shown, changed, listed, and who is claimed first."""

from typing import Any
from uuid import UUID

from conftest import Api
from postdate.core.ids import bucket_of
from postdate.lane.spec import PRIORITY_STEP, buckets, key_position

WORKER = {"type": "worker"}


async def made(api: Api, **members: Any) -> dict[str, Any]:
    answer = await api.call("POST", "/jobs", {"destination": WORKER, **members})
    assert answer.status == 201, answer.body
    return dict(answer.body)


async def claimed(api: Api, lane: str, count: int = 1) -> list[str]:
    body = {"max": count, "lease_seconds": 30, "wait_seconds": 5}
    answer = await api.call("POST", f"/lanes/{lane}/claim", body)
    assert answer.status == 200, answer.body
    return [each["job_id"] for each in answer.body["leases"]]


async def wait_since(api: Api, job_id: str, seconds: float) -> None:
    """Make a waiting job due some seconds earlier."""
    await api.node.database.writer.execute(
        "UPDATE timer SET due_at = due_at - make_interval(secs => $2) WHERE subject = $1",
        job_id,
        seconds,
    )


async def test_the_urgent_job_is_claimed_before_a_backlog(api: Api) -> None:
    lane = {"lane": "urgent"}
    usual = [(await made(api, **lane))["job_id"] for _ in range(4)]
    last = (await made(api, **lane, priority=9))["job_id"]
    first = (await made(api, **lane, priority=0))["job_id"]
    got = [(await claimed(api, "urgent"))[0] for _ in range(6)]
    assert got[0] == first
    assert got[5] == last
    assert set(got[1:5]) == set(usual)


async def test_waiting_raises_a_job_above_a_more_urgent_one(api: Api) -> None:
    """One step of priority is worth a minute: nine of them bound how long 9 waits for 0."""
    step = PRIORITY_STEP.total_seconds()
    for waited, wins in ((9 * step - 30, False), (9 * step + 30, True)):
        lane = f"aged-{wins}"
        patient = (await made(api, lane=lane, priority=9))["job_id"]
        await wait_since(api, patient, waited)
        urgent = (await made(api, lane=lane, priority=0))["job_id"]
        assert (await claimed(api, lane)) == [patient if wins else urgent]


async def test_an_urgent_job_does_not_start_before_it_is_due(api: Api) -> None:
    await made(api, lane="early", priority=0, delay_seconds=60)
    usual = (await made(api, lane="early", priority=9))["job_id"]
    assert await claimed(api, "early", 5) == [usual]


async def test_a_priority_is_changed_while_a_job_waits(api: Api) -> None:
    lane = {"lane": "changed"}
    usual = (await made(api, **lane))["job_id"]
    raised = (await made(api, **lane, priority=9, key="k"))["job_id"]
    answer = await api.call("PATCH", f"/jobs/{raised}", {"priority": 0})
    assert (answer.status, answer.body["priority"], answer.body["revision"]) == (200, 0, 1)
    shown = (await api.call("GET", f"/jobs/{raised}")).body
    assert (shown["priority"], shown["lane"], shown["key"]) == (0, "changed", "k")
    assert await claimed(api, "changed") == [raised]
    assert await claimed(api, "changed") == [usual]
    refused = await api.call("PATCH", f"/jobs/{usual}", {"priority": 1})
    assert (refused.status, refused.body["code"]) == (409, "conflict")
    for wrong in (-1, 10, "high"):
        refused = await api.call("PATCH", f"/jobs/{raised}", {"priority": wrong})
        assert (refused.status, refused.body["field"]) == (422, "priority")
    refused = await api.call("PATCH", f"/jobs/{raised}", {"key": "other"})
    assert (refused.status, refused.body["code"]) == (422, "unknown_field")


async def test_a_change_of_time_keeps_the_priority(api: Api) -> None:
    job = await made(api, lane="moved", priority=3, delay_seconds=600)
    answer = await api.call("PATCH", f"/jobs/{job['job_id']}", {"priority": 4})
    assert answer.body["priority"] == 4
    answer = await api.call("PATCH", f"/jobs/{job['job_id']}", {"delay_seconds": 900})
    assert (answer.body["priority"], answer.body["revision"]) == (4, 2)


async def listed(api: Api, **query: Any) -> set[str]:
    text = "&".join(f"{name}={value}" for name, value in query.items())
    answer = await api.call("GET", f"/jobs?{text}")
    assert answer.status == 200, answer.body
    return {each["job_id"] for each in answer.body["jobs"]}


async def test_jobs_are_listed_by_key_and_by_priority(api: Api) -> None:
    far = {"lane": "sorted", "delay_seconds": 600}
    plain = (await made(api, **far))["job_id"]
    one = (await made(api, **far, key="one"))["job_id"]
    two = (await made(api, **far, key="two", priority=1))["job_id"]
    elsewhere = (await made(api, lane="another", key="one", priority=1))["job_id"]
    for status in ({}, {"status": "PENDING"}):
        assert await listed(api, lane="sorted", key="one", **status) == {one}
        assert await listed(api, lane="sorted", priority=5, **status) == {plain, one}
        assert await listed(api, lane="sorted", priority=1, **status) == {two}
        assert await listed(api, lane="sorted", key="none", **status) == set()
    assert await listed(api, key="one") == {one, elsewhere}
    assert await listed(api, priority=1) == {two, elsewhere}
    await api.call("PATCH", f"/jobs/{two}", {"priority": 8})
    for status in ({}, {"status": "PENDING"}):
        assert await listed(api, priority=8, **status) == {two}
    await api.call("POST", f"/jobs/{two}/cancel")
    assert await listed(api, status="CANCELLED", key="two", priority=8) == {two}
    assert await listed(api, status="CANCELLED", key="one") == set()
    for query, field in (("priority=10", "priority"), ("key=%0A", "key"), ("key=", "key")):
        refused = await api.call("GET", f"/jobs?{query}")
        assert (refused.status, refused.body["field"]) == (422, field)


async def test_a_key_keeps_its_jobs_in_one_bucket(api: Api) -> None:
    bodies = [{"destination": WORKER, "lane": "placed", "key": "k"} for _ in range(5)]
    answer = await api.call("POST", "/jobs/batch", {"jobs": bodies})
    ids = [each["job"]["job_id"] for each in answer.body["outcomes"]]
    ids.append((await made(api, lane="placed", key="k", priority=0))["job_id"])
    hook = {"type": "webhook", "url": "https://example.com/hook"}
    ids.append((await made(api, lane="placed", key="k", destination=hook))["job_id"])
    tenants = "SELECT tenant_id FROM tenant WHERE name = $1"
    tenant_id = await api.node.database.writer.fetchval(tenants, api.tenant)
    place = buckets(tenant_id, "placed", 16)[key_position("k")]
    assert {bucket_of(UUID(each)) for each in ids} == {place}


async def test_a_repeated_request_must_have_the_same_key_and_priority(api: Api) -> None:
    body = {"destination": WORKER, "lane": "again", "key": "k", "priority": 3}
    headers = {"Idempotency-Key": "again"}
    first = await api.call("POST", "/jobs", body, headers=headers)
    again = await api.call("POST", "/jobs", body, headers=headers)
    assert again.body["job_id"] == first.body["job_id"]
    for other, field in (({"key": "j"}, "key"), ({"priority": 4}, "priority")):
        refused = await api.call("POST", "/jobs", body | other, headers=headers)
        assert (refused.status, refused.body["code"]) == (422, "idempotency_key_reused")
        assert field in refused.body["detail"]


async def test_a_schedule_gives_its_jobs_key_and_priority(api: Api) -> None:
    job = {"destination": WORKER, "lane": "planned", "key": "k", "priority": 1}
    body = {"every_seconds": 3600, "template": {"job": job}}
    made_schedule = await api.call("POST", "/schedules", body)
    assert made_schedule.status == 201, made_schedule.body
    path = f"/schedules/{made_schedule.body['schedule_id']}/trigger"
    triggered = await api.call("POST", path, {})
    assert triggered.status < 300, triggered.body
    [found] = (await api.call("GET", "/jobs?lane=planned&key=k&priority=1")).body["jobs"]
    assert (found["key"], found["priority"]) == ("k", 1)
