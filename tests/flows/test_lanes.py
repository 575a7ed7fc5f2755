"""Lanes over HTTP."""

from typing import Any

import pytest

from conftest import Api

WORKER = {"type": "worker"}
HOOK = {"type": "webhook", "url": "https://example.com/"}


async def made(api: Api, lane: str, **members: Any) -> None:
    answer = await api.call("POST", "/jobs", {"destination": WORKER, "lane": lane, **members})
    assert answer.status == 201, answer.body


async def test_a_lane_appears_with_its_first_job_and_counts_what_waits(api: Api) -> None:
    await made(api, "mail")
    await made(api, "mail", destination=HOOK, delay_seconds=60)
    answer = await api.call("GET", "/lanes/mail")
    lane = answer.body
    assert (lane["ready"], lane["pending"], lane["running"], lane["unknown"]) == (1, 1, 0, 0)
    assert (lane["weight"], lane["width"], lane["paused"]) == (1, 8, False)
    assert not lane["counts_capped"]
    assert [one["lane"] for one in (await api.call("GET", "/lanes")).body["lanes"]] == ["mail"]


async def test_a_lane_is_created_with_its_limits_before_its_first_job(api: Api) -> None:
    limits = {"weight": 3, "width": 16, "max_running": 2}
    made = await api.call("POST", "/lanes", {"lane": "mail", **limits})
    assert (made.status, made.body["ready"]) == (201, 0)
    assert made.body.items() >= limits.items()
    for destination in ({"type": "worker"}, {"type": "webhook", "url": "https://a.example/hook"}):
        body = {"destination": destination, "lane": "mail", "delay_seconds": 60}
        assert (await api.call("POST", "/jobs", body)).status == 201
    shown = (await api.call("GET", "/lanes/mail")).body
    assert {**shown, "pending": 0} == {**made.body, "pending": 0}
    assert shown["pending"] == 2
    again = await api.call("POST", "/lanes", {"lane": "mail"})
    assert (again.status, again.body["code"], again.body["field"]) == (409, "conflict", "lane")
    narrow = await api.call("POST", "/lanes", {"lane": "slow", "width": 2})
    assert (narrow.status, narrow.body["field"]) == (422, "width")
    assert (await api.call("GET", "/lanes/slow")).status == 404


async def test_lanes_are_listed_by_name_page_by_page(api: Api) -> None:
    for name in ("c", "a", "b", "a.b"):
        await made(api, name)
        await made(api, name, destination=HOOK)
    names: list[str] = []
    cursor = ""
    while True:
        body = (await api.call("GET", f"/lanes?limit=3{cursor}")).body
        names += [lane["lane"] for lane in body["lanes"]]
        if not body["next_cursor"]:
            break
        cursor = f"&cursor={body['next_cursor']}"
    assert names == ["a", "a.b", "b", "c"]


async def test_a_lane_is_changed_for_both_kinds(api: Api) -> None:
    await made(api, "x")
    await made(api, "x", destination=HOOK)
    change = {"weight": 5, "width": 16, "max_running": 3, "rate_per_second": 2.5}
    answer = await api.call("PATCH", "/lanes/x", change)
    assert answer.status == 200, answer.body
    assert {name: answer.body[name] for name in change} == change
    answer = await api.call("PATCH", "/lanes/x", {"max_running": None})
    assert (answer.body["max_running"], answer.body["rate_per_second"]) == (None, 2.5)
    kinds = {lane.kind: lane.weight for lane in api.node.lanes.by_id.values() if lane.name == "x"}
    assert kinds == {"push": 5, "pull": 5}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, None),
        ({"weight": 0}, "weight"),
        ({"weight": 101}, "weight"),
        ({"width": 4}, "width"),
        ({"width": 65}, "width"),
        ({"max_running": 0}, "max_running"),
        ({"rate_per_second": 0}, "rate_per_second"),
        ({"paused": True}, "paused"),
    ],
)
async def test_a_wrong_change_of_a_lane_is_refused(
    api: Api, body: dict[str, Any], field: str | None
) -> None:
    await made(api, "x")
    answer = await api.call("PATCH", "/lanes/x", body)
    assert (answer.status, answer.body.get("field")) == (422, field)


async def test_a_lane_is_paused_with_a_note_and_resumed(api: Api) -> None:
    await made(api, "x")
    answer = await api.call("POST", "/lanes/x/pause", {"note": "receiver down"})
    assert (answer.body["paused"], answer.body["paused_note"]) == (True, "receiver down")
    since = answer.body["paused_at"]
    answer = await api.call("POST", "/lanes/x/pause", {})
    assert (answer.body["paused_at"], answer.body["paused_note"]) == (since, None)
    answer = await api.call("POST", "/lanes/x/resume")
    assert (answer.body["paused"], answer.body["paused_at"]) == (False, None)


async def test_a_lane_of_nobody_or_of_another_tenant_is_missing(api: Api) -> None:
    for method, path, body in (
        ("GET", "/lanes/none", None),
        ("PATCH", "/lanes/none", {"weight": 2}),
        ("POST", "/lanes/none/pause", {}),
        ("POST", "/lanes/none/resume", None),
    ):
        answer = await api.call(method, path, body)
        assert (answer.status, answer.body["code"]) == (404, "not_found")


async def test_a_tenant_has_only_so_many_lanes(api: Api) -> None:
    await made(api, "one")
    assert (await api.call("PUT", "/settings/job.max_lanes", {"value": 1})).status == 200
    await api.node.refresh_settings()
    answer = await api.call("POST", "/jobs", {"destination": WORKER, "lane": "two"})
    assert (answer.status, answer.body["code"]) == (422, "too_many_lanes")
    await made(api, "one", destination=HOOK)
