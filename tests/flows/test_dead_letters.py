"""Dead letters over HTTP: list, inspect, redrive, purge."""

from datetime import datetime
from itertools import pairwise
from typing import Any
from uuid import UUID

import pytest

from conftest import Api
from postdate.job.api import dead_letter
from support.job import failed

WORKER = {"type": "worker"}


async def test_a_dead_letter_is_listed_and_shown_with_its_attempts(api: Api) -> None:
    (job_id,) = await failed(api, payload={"n": 1})
    listed = (await api.call("GET", "/dead-letters")).body
    assert [job["job_id"] for job in listed["jobs"]] == [job_id]
    assert listed["jobs"][0]["error"] == "still no"
    letter = (await api.call("GET", f"/dead-letters/{job_id}")).body
    assert letter["job"]["payload"] == {"n": 1}
    assert [one["attempt"] for one in letter["attempts"]] == [1, 2]
    assert letter["attempts"][1]["http_status"] == 500
    page = (await api.call("GET", f"/jobs/{job_id}/attempts?limit=1")).body
    assert len(page["attempts"]) == 1
    following = f"/jobs/{job_id}/attempts?limit=1&cursor={page['next_cursor']}"
    rest = (await api.call("GET", following)).body
    assert ([one["attempt"] for one in rest["attempts"]], rest["next_cursor"]) == ([2], None)


async def test_a_redrive_is_a_new_job_that_names_its_origin(api: Api) -> None:
    (job_id,) = await failed(
        api, payload={"n": 1}, retry={"max_attempts": 2}, lane="x", metadata={"k": "v"}
    )
    answer = await api.call("POST", "/dead-letters/redrive", {"job_ids": [job_id]})
    assert answer.body["redriven"] == 1
    new = (await api.call("GET", f"/jobs/{answer.body['outcomes'][0]['job_id']}")).body
    assert (new["origin_id"], new["payload"], new["lane"]) == (job_id, {"n": 1}, "x")
    assert (new["retry"], new["metadata"]) == ({"max_attempts": 2}, {"k": "v"})
    assert (new["status"], new.get("attempt", 0)) == ("READY", 0)
    assert (await api.call("GET", f"/jobs/{job_id}")).body["status"] == "FAILED"


async def test_a_dead_letter_is_redriven_once(api: Api) -> None:
    (job_id,) = await failed(api)
    first = (await api.call("POST", "/dead-letters/redrive", {"job_ids": [job_id]})).body
    again = (await api.call("POST", "/dead-letters/redrive", {"job_ids": [job_id]})).body
    assert (first["redriven"], again["redriven"]) == (1, 0)
    assert again["outcomes"][0]["code"] == "already_redriven"
    assert again["outcomes"][0]["job_id"] == first["outcomes"][0]["job_id"]


async def test_a_redrive_by_filter_keeps_its_pace(api: Api) -> None:
    await failed(api, 5, lane="a")
    await failed(api, 1, lane="b")
    body = {"filter": {"lane": "a"}, "per_second": 0.5}
    answer = (await api.call("POST", "/dead-letters/redrive", body)).body
    assert (answer["redriven"], answer["next_cursor"]) == (5, None)
    waiting = (await api.call("GET", "/jobs?status=PENDING")).body["jobs"]
    ready = (await api.call("GET", "/jobs?status=READY")).body["jobs"]
    assert (len(ready), len(waiting)) == (1, 4)
    ends = [job["due_at"] for job in waiting]
    assert ends == sorted(ends)
    assert len(set(ends)) == 4


async def test_a_filter_by_code_touches_only_what_failed_so(api: Api) -> None:
    await failed(api, 2, lane="a")
    (other,) = await failed(api, lane="a", code="timeout")
    listed = (await api.call("GET", "/dead-letters?code=timeout")).body["jobs"]
    assert [job["job_id"] for job in listed] == [other]
    body: dict[str, Any] = {"filter": {"lane": "a", "code": "timeout"}, "dry_run": True}
    assert (await api.call("POST", "/dead-letters/redrive", body)).body["redriven"] == 1
    body["dry_run"] = False
    assert (await api.call("POST", "/dead-letters/redrive", body)).body["redriven"] == 1
    body["filter"]["code"] = "http_500"
    assert (await api.call("POST", "/dead-letters/redrive", body)).body["redriven"] == 2


async def test_the_pace_is_one_over_all_calls_of_a_filter(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letter, "MAX_REDRIVE", 2)
    await failed(api, 5, lane="a")
    body: dict[str, Any] = {"filter": {"lane": "a"}, "per_second": 0.01}
    done, cursor = 0, None
    while True:
        answer = await api.call("POST", "/dead-letters/redrive", {**body, "cursor": cursor})
        done += answer.body["redriven"]
        cursor = answer.body["next_cursor"]
        if cursor is None:
            break
    assert done == 5
    found = (await api.call("GET", "/jobs?lane=a&limit=100")).body["jobs"]
    new = sorted(datetime.fromisoformat(one["due_at"]) for one in found if one.get("origin_id"))
    steps = [(later - sooner).total_seconds() for sooner, later in pairwise(new)]
    assert all(90 < step < 110 for step in steps), steps


async def test_a_dry_run_tells_what_would_be_done_and_a_reason_is_kept(api: Api) -> None:
    one, two = await failed(api, 2)
    await api.call("POST", "/dead-letters/redrive", {"job_ids": [one]})
    wish = {"job_ids": [one, two]}
    told = (await api.call("POST", "/dead-letters/redrive", {**wish, "dry_run": True})).body
    assert told["redriven"] == 1
    assert [each.get("code") for each in told["outcomes"]] == ["already_redriven", None]
    purge = (await api.call("POST", "/dead-letters/purge", {**wish, "dry_run": True})).body
    assert purge["purged"] == 2
    assert (await api.call("GET", f"/dead-letters/{two}")).status == 200
    told = (await api.call("POST", "/dead-letters/redrive", {**wish, "reason": "mended"})).body
    assert told["redriven"] == 1
    await api.call("POST", "/dead-letters/purge", {**wish, "reason": "too old"})
    said = await api.node.database.writer.fetch(
        "SELECT type, data->>'reason' FROM event WHERE subject = $1 ORDER BY event_id", UUID(two)
    )
    assert [tuple(row) for row in said][-2:] == [
        ("job.redriven", "mended"),
        ("job.purged", "too old"),
    ]


async def test_only_what_failed_can_be_redriven_or_purged(api: Api) -> None:
    pending = (await api.call("POST", "/jobs", {"destination": WORKER, "delay_seconds": 9})).body
    absent = "01a1e1c8-dd23-7001-bd68-723753d52271"
    answer = await api.call(
        "POST", "/dead-letters/redrive", {"job_ids": [pending["job_id"], absent]}
    )
    assert [one["code"] for one in answer.body["outcomes"]] == ["conflict", "not_found"]
    for job_id in (pending["job_id"], absent):
        assert (await api.call("DELETE", f"/dead-letters/{job_id}")).status == 404
        assert (await api.call("GET", f"/dead-letters/{job_id}")).status == 404
    assert (await api.call("GET", f"/jobs/{pending['job_id']}")).body["status"] == "PENDING"


async def test_a_purge_removes_the_job_and_all_that_belongs_to_it(api: Api) -> None:
    one, *others = await failed(api, 3)
    assert (await api.call("DELETE", f"/dead-letters/{one}")).status == 204
    assert (await api.call("GET", f"/jobs/{one}")).status == 404
    assert (await api.call("DELETE", f"/dead-letters/{one}")).status == 404
    left = await api.node.database.writer.fetchval(
        """SELECT (SELECT count(*) FROM attempt WHERE subject = $1)
                + (SELECT count(*) FROM outcome WHERE subject = $1)""",
        UUID(one),
    )
    assert left == 0
    answer = (await api.call("POST", "/dead-letters/purge", {"filter": {}})).body
    assert answer == {"purged": len(others), "next_cursor": None}


async def test_another_tenants_dead_letter_is_out_of_reach(api: Api, edge_server: Api) -> None:
    (job_id,) = await failed(api)
    from postdate.tenant.change.tenant import Tenants

    other = f"other-{job_id[-8:]}"
    await Tenants(api.node.database).create(other)
    key = await edge_server.new_key("admin", tenant=other)
    answer = await api.call("POST", "/dead-letters/redrive", {"job_ids": [job_id]}, key=key)
    assert [one["code"] for one in answer.body["outcomes"]] == ["not_found"]
    assert (await api.call("DELETE", f"/dead-letters/{job_id}", key=key)).status == 404
    purge = await api.call("POST", "/dead-letters/purge", {"job_ids": [job_id]}, key=key)
    assert purge.body["purged"] == 0
    assert (await api.call("GET", f"/dead-letters/{job_id}")).status == 200


async def test_payments_are_listed_apart(api: Api) -> None:
    answer = await api.call("GET", "/dead-letters?type=payment")
    empty: dict[str, Any] = {"jobs": [], "payments": [], "next_cursor": None}
    assert (answer.status, answer.body) == (200, empty)
    key = await api.new_key("jobs:read")
    assert (await api.call("GET", "/dead-letters?type=payment", key=key)).status == 403


@pytest.mark.parametrize("body", [{}, {"job_ids": []}, {"job_ids": ["x"]}, {"per_second": 1}])
async def test_a_redrive_must_say_of_what(api: Api, body: dict[str, Any]) -> None:
    answer = await api.call("POST", "/dead-letters/redrive", body)
    assert (answer.status, answer.body["code"]) == (422, "invalid_field")
