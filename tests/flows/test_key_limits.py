"""Limits for each key of a lane, from outside: set, obeyed by workers over HTTP, and explained."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from conftest import Api
from faults.pg_proxy import wait_a_moment

WORKER = {"type": "worker"}


async def made(api: Api, lane: str, key: str | None, count: int = 1, **more: Any) -> list[str]:
    ids = []
    for _ in range(count):
        body = {"destination": WORKER, "lane": lane, "key": key, **more}
        answer = await api.call("POST", "/jobs", body)
        assert answer.status == 201, answer.body
        ids.append(answer.body["job_id"])
    return ids


async def claim(api: Api, lane: str, count: int = 100, wait: float = 0) -> list[dict[str, Any]]:
    body = {"max": count, "lease_seconds": 30, "wait_seconds": wait}
    answer = await api.call("POST", f"/lanes/{lane}/claim", body)
    assert answer.status == 200, answer.body
    return list(answer.body["leases"])


async def limited(api: Api, lane: str, per_key: Any) -> Any:
    return await api.call("PATCH", f"/lanes/{lane}", {"per_key": per_key})


async def complete(api: Api, lease: dict[str, Any]) -> None:
    path = f"/leases/{lease['job_id']}/complete"
    answer = await api.call("POST", path, {"token": lease["token"]})
    assert answer.status == 200, answer.body


async def test_workers_over_http_obey_the_limit_of_each_key(api: Api) -> None:
    a, b = await made(api, "mail", "a", 3), await made(api, "mail", "b", 1)
    answer = await limited(api, "mail", {"max_running": 1})
    assert (answer.status, answer.body["per_key"]) == (200, {"max_running": 1})
    first = await claim(api, "mail")
    assert {each["job_id"] for each in first} == {a[0], *b}
    shown = (await api.call("GET", f"/jobs/{a[2]}")).body
    assert (shown["status"], shown["waiting_for"], shown["jobs_before"]) == (
        "READY",
        "key_max_running",
        1,
    )
    assert await claim(api, "mail") == []
    # A request that waits hears of the end at once.
    waiting = asyncio.create_task(claim(api, "mail", wait=20))
    await wait_a_moment(0.3)
    loop = asyncio.get_running_loop()
    before = loop.time()
    await complete(api, next(each for each in first if each["job_id"] == a[0]))
    [second] = await waiting
    assert (second["job_id"], loop.time() - before < 5) == (a[1], True)


async def test_jobs_of_one_key_share_its_limit_over_priorities(api: Api) -> None:
    usual = await made(api, "mail", "a", 2)
    urgent = await made(api, "mail", "a", 2, priority=0)
    await limited(api, "mail", {"max_running": 2})
    leases = await claim(api, "mail")
    assert {each["job_id"] for each in leases} == set(urgent)
    for lease in leases:
        await complete(api, lease)
    assert {each["job_id"] for each in await claim(api, "mail")} == set(usual)


async def test_a_cancelled_job_gives_its_slot_back(api: Api) -> None:
    await made(api, "mail", "a", 2)
    await limited(api, "mail", {"max_running": 1})
    [lease] = await claim(api, "mail")
    answer = await api.call("POST", f"/jobs/{lease['job_id']}/cancel", {"deadline_seconds": 1})
    assert answer.status in {200, 202}, answer.body
    failed = await api.call(
        "POST", f"/leases/{lease['job_id']}/fail", {"token": lease["token"], "error": "stopped"}
    )
    assert failed.status == 200
    assert len(await claim(api, "mail", wait=5)) == 1


async def test_a_rate_is_explained_and_holds(api: Api) -> None:
    ids = await made(api, "mail", "a", 4)
    await limited(api, "mail", {"rate_per_second": 0.01, "rate_burst": 2})
    assert [each["job_id"] for each in await claim(api, "mail")] == ids[:2]
    assert await claim(api, "mail") == []
    shown = (await api.call("GET", f"/jobs/{ids[3]}")).body
    assert (shown["waiting_for"], shown["jobs_before"]) == ("key_rate_per_second", 1)


async def test_a_lanes_own_limits_are_explained_too(api: Api) -> None:
    ids = await made(api, "mail", None, 3)
    await api.call("PATCH", "/lanes/mail", {"max_running": 1})
    [lease] = await claim(api, "mail")
    last = next(each for each in reversed(ids) if each != lease["job_id"])
    shown = (await api.call("GET", f"/jobs/{last}")).body
    assert (shown["waiting_for"], shown["jobs_before"]) == ("lane_max_running", 1)
    await api.call("PATCH", "/lanes/mail", {"max_running": None})
    assert "waiting_for" not in (await api.call("GET", f"/jobs/{last}")).body


async def test_two_hundred_keys_of_which_one_has_a_backlog(api: Api) -> None:
    await made(api, "mail", "hog", 150)
    keys = [f"k{n}" for n in range(40)]
    for key in keys:
        await made(api, "mail", key, 1)
    await limited(api, "mail", {"max_running": 1})
    got = Counter(each["job_id"] for each in await claim(api, "mail"))
    assert len(got) == 41


async def test_keys_take_turns_where_nothing_else_is_limited(api: Api) -> None:
    await made(api, "mail", "hog", 60)
    small = await made(api, "mail", "small", 1)
    await limited(api, "mail", {})
    got = [each["job_id"] for each in await claim(api, "mail", 10)]
    assert small[0] in got


@pytest.mark.parametrize(
    ("per_key", "field"),
    [
        ({"max_running": 0}, "per_key.max_running"),
        ({"max_running": 1.5}, "per_key.max_running"),
        ({"max_running": 1_000_001}, "per_key.max_running"),
        ({"rate_per_second": 0}, "per_key.rate_per_second"),
        ({"rate_per_second": -1}, "per_key.rate_per_second"),
        ({"rate_per_second": "5"}, "per_key.rate_per_second"),
        ({"rate_per_second": 1, "rate_burst": 0}, "per_key.rate_burst"),
        ({"rate_burst": 2}, "per_key.rate_burst"),
        ({"weight": 3}, "per_key.weight"),
        ({"weight": {"a": 0}}, "per_key.weight"),
        ({"weight": {"a": 101}}, "per_key.weight"),
        ({"weight": {"": 1}}, "per_key.weight"),
        ({"weight": {f"k{n}": 1 for n in range(101)}}, "per_key.weight"),
        ({"max": 1}, "per_key.max"),
        ([], "per_key"),
        (1, "per_key"),
    ],
)
async def test_a_wrong_limit_is_refused_by_the_name_of_its_field(
    api: Api, per_key: Any, field: str
) -> None:
    await made(api, "mail", "a")
    answer = await limited(api, "mail", per_key)
    assert (answer.status, answer.body["field"]) == (422, field), answer.body


async def test_the_change_is_an_event_and_null_takes_it_away(api: Api) -> None:
    await made(api, "mail", "a", 3)
    rule = {"max_running": 1, "rate_per_second": 5, "rate_burst": 10, "weight": {"a": 3}}
    assert (await limited(api, "mail", rule)).body["per_key"] == rule
    assert (await api.call("GET", "/lanes/mail")).body["per_key"] == rule

    told = "SELECT data FROM event WHERE type = 'lane.changed' ORDER BY event_id DESC LIMIT 1"
    data = await api.node.database.writer.fetchval(told)
    assert (data["lane"], data["per_key"]) == ("mail", rule)
    # A row of the lane that is made later takes it over.
    await made(api, "mail", "a", 1, priority=0)
    assert len(await claim(api, "mail")) == 1
    assert (await limited(api, "mail", None)).body["per_key"] is None
    assert len(await claim(api, "mail", wait=5)) == 3
