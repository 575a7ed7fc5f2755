"""Bulk actions: each item once, its outcome recorded with its change, whatever comes in between."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from conftest import Api
from postdate.bulk_action import store
from postdate.bulk_action.change import bulk_action
from postdate.bulk_action.change import work_off as working
from postdate.bulk_action.change.work_off import BulkWorker
from postdate.node import bulk_action as node_bulk_action
from postdate.words.error import RefusedError
from support.bulk_work import confirmed_bulk_action, work_off

pytestmark = pytest.mark.own_database("a worker of bulk actions serves every tenant")


@pytest.fixture(autouse=True)
async def at_once(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin without the seconds in which it can be undone, in small pieces, and nothing else."""
    await write(api, "DELETE FROM bulk_action")
    monkeypatch.setattr(bulk_action, "UNDO_SECONDS", 0.0)
    monkeypatch.setattr(working, "PIECE", 2)


async def jobs(api: Api, many: int) -> list[str]:
    spec = {"destination": {"type": "worker"}, "delay_seconds": 3600, "lane": "mail"}
    answer = await api.call("POST", "/jobs/batch", {"jobs": [spec] * many})
    return sorted(outcome["job"]["job_id"] for outcome in answer.body["outcomes"])


async def failed(api: Api, many: int) -> list[str]:
    spec = {"destination": {"type": "worker"}, "lane": "broken", "retry": {"max_attempts": 1}}
    answer = await api.call("POST", "/jobs/batch", {"jobs": [spec] * many})
    claim = {"max": many, "lease_seconds": 60, "wait_seconds": 5}
    for lease in (await api.call("POST", "/lanes/broken/claim", claim)).body["leases"]:
        body = {"token": lease["token"], "code": "broken", "error": "it is broken"}
        await api.call("POST", f"/leases/{lease['job_id']}/fail", body)
    return sorted(outcome["job"]["job_id"] for outcome in answer.body["outcomes"])


async def write(api: Api, statement: str, *values: Any) -> Any:
    async with api.node.database.write() as connection:
        return await connection.fetchval(statement, *values)


async def begin(
    api: Api, operation: Any, terms: Mapping[str, Any], items: Sequence[str], seen: str = "PENDING"
) -> str:
    return await confirmed_bulk_action(api, operation, dict.fromkeys(items, seen), terms)


async def shown(api: Api, bulk_id: str) -> Any:
    return (await api.call("GET", f"/bulk-actions/{bulk_id}")).body


async def outcomes(api: Api, bulk_id: str) -> list[str | None]:
    found = await api.call("GET", f"/bulk-actions/{bulk_id}/items?limit=100")
    return [one["outcome"] for one in found.body["items"]]


def worker(api: Api) -> BulkWorker:
    return node_bulk_action.worker(api.node)


async def test_every_item_has_its_outcome_and_the_counts_are_theirs(api: Api) -> None:
    made = await jobs(api, 5)
    await api.call("POST", f"/jobs/{made[3]}/cancel")
    bulk_id = await begin(api, "cancel_jobs", {"reason": "sent by mistake"}, made)
    before = await shown(api, bulk_id)
    assert (before["status"], before["total"], before["position"]) == ("RUNNING", 5, 0)
    assert await work_off(api) == 3
    after = await shown(api, bulk_id)
    assert (after["status"], after["done"], after["position"]) == ("DONE", 4, 5)
    assert after["skipped"] == {"CANCELLED by now": 1}
    assert await outcomes(api, bulk_id) == ["done", "done", "done", "CANCELLED by now", "done"]
    assert after["terms"] == {"reason": "sent by mistake"}


async def test_a_node_that_dies_within_a_piece_changes_nothing_twice(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It dies after the transaction that redrove jobs, and before the one that moves on."""
    made = await failed(api, 3)
    bulk_id = await begin(api, "redrive_dead_letters", {"reason": "fixed"}, made, "")

    async def die(*_: object) -> None:
        raise ZeroDivisionError("killed")

    with monkeypatch.context() as patched:
        patched.setattr(store, "progress", die)
        with pytest.raises(ZeroDivisionError):
            await worker(api).run_once(1)
    assert (await shown(api, bulk_id))["position"] == 0
    assert await outcomes(api, bulk_id) == ["done", "done", None]
    assert await worker(api).run_once(1) == 0, "the dead node holds it for a while"
    await write(api, "UPDATE bulk_action SET held_until = server_clock()")
    await work_off(api)
    assert await outcomes(api, bulk_id) == ["done", "done", "done"]
    assert (await shown(api, bulk_id))["done"] == 3
    found = (await api.call("GET", "/jobs?lane=broken&limit=100")).body["jobs"]
    assert len([one for one in found if one.get("origin_id")]) == 3


async def test_a_slow_node_whose_turn_was_taken_over_changes_nothing(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await jobs(api, 2)
    bulk_id = await begin(api, "cancel_jobs", {}, made)
    slow, quick, original = worker(api), worker(api), store.piece

    async def overtaken(*asked: Any) -> Any:
        found = await original(*asked)
        monkeypatch.setattr(store, "piece", original)
        await write(api, "UPDATE bulk_action SET held_until = NULL")
        assert await quick.run_once(1) == 1
        return found

    monkeypatch.setattr(store, "piece", overtaken)
    await slow.run_once(1)
    assert (await shown(api, bulk_id))["done"] == 2
    told = "SELECT count(*) FROM event WHERE type = 'job.cancelled' AND subject = ANY ($1::uuid[])"
    assert await write(api, told, made) == 2


async def test_after_a_stop_is_answered_no_item_is_changed(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await jobs(api, 2)
    bulk_id = await begin(api, "cancel_jobs", {}, made)
    original = store.piece

    async def stopped(*asked: Any) -> Any:
        found = await original(*asked)
        assert (await api.call("POST", f"/bulk-actions/{bulk_id}/stop")).status == 200
        return found

    monkeypatch.setattr(store, "piece", stopped)
    await worker(api).run_once(1)
    found = await shown(api, bulk_id)
    assert (found["status"], found["done"]) == ("STOPPED", 0)
    assert {(await api.call("GET", f"/jobs/{one}")).body["status"] for one in made} == {"PENDING"}


async def test_it_waits_while_the_tenant_is_halted(api: Api) -> None:
    made = await jobs(api, 2)
    bulk_id = await begin(api, "cancel_jobs", {}, made)
    await api.call("PUT", "/kill-switch", {"note": "stop it"})
    await api.node.refresh_settings()
    await worker(api).run_once(1)
    assert (await shown(api, bulk_id))["waiting_for"] == "The tenant is stopped."
    assert await outcomes(api, bulk_id) == [None, None]
    await api.call("DELETE", "/kill-switch")
    await api.node.refresh_settings()
    await write(api, "UPDATE bulk_action SET next_at = server_clock()")
    await work_off(api)
    found = await shown(api, bulk_id)
    assert (found["done"], found["waiting_for"]) == (2, None)


async def test_it_ends_with_the_key_that_began_it(api: Api) -> None:
    made = await jobs(api, 2)
    me = (await api.call("GET", "/whoami")).body["key_id"]
    other = await api.new_key("admin")
    bulk_id = await begin(api, "cancel_jobs", {}, made)
    assert (await api.call("DELETE", f"/keys/{me}", key=other)).status == 204
    await worker(api).run_once(1)
    found = (await api.call("GET", f"/bulk-actions/{bulk_id}", key=other)).body
    assert (found["status"], found["stopped_by"], found["done"]) == ("STOPPED", "system", 0)
    assert found["waiting_for"] == "The key that began it has ended."


async def test_an_instant_that_has_passed_ends_it_with_the_reason(api: Api) -> None:
    made = await jobs(api, 2)
    terms = {"to": {"run_at": "2001-01-01T00:00:00Z"}}
    bulk_id = await begin(api, "reschedule_jobs", terms, made)
    await worker(api).run_once(1)
    found = await shown(api, bulk_id)
    assert (found["status"], found["stopped_by"], found["done"]) == ("STOPPED", "system", 0)
    assert found["waiting_for"]


async def test_jobs_get_their_new_instant(api: Api) -> None:
    made = await jobs(api, 3)
    terms = {"to": {"run_at": "2035-01-01T00:00:00Z"}, "reason": "later"}
    bulk_id = await begin(api, "reschedule_jobs", terms, made)
    await work_off(api)
    assert await outcomes(api, bulk_id) == ["done"] * 3
    due = {(await api.call("GET", f"/jobs/{one}")).body["due_at"][:10] for one in made}
    assert due == {"2035-01-01"}


async def test_schedules_are_paused_and_resumed_each_with_its_outcome(api: Api) -> None:
    body = {"every_seconds": 3600, "template": {"job": {"destination": {"type": "worker"}}}}
    made = [(await api.call("POST", "/schedules", body)).body["schedule_id"] for _ in range(3)]
    await api.call("POST", f"/schedules/{made[1]}/pause", {"note": "before"})
    bulk_id = await begin(api, "pause_schedule", {"note": "audit"}, made, "ACTIVE")
    await work_off(api)
    assert await outcomes(api, bulk_id) == ["done", "paused by now", "done"]
    again = await begin(api, "resume_schedule", {}, made[:1], "PAUSED")
    await api.call("DELETE", f"/schedules/{made[2]}")
    gone = await begin(api, "resume_schedule", {}, made[2:], "PAUSED")
    await work_off(api)
    assert await outcomes(api, again) == ["done"]
    assert await outcomes(api, gone) == ["not_found"]


async def test_a_key_sees_and_stops_only_what_it_may_do_itself(api: Api) -> None:
    bulk_id = await begin(api, "cancel_jobs", {}, await jobs(api, 1))
    reader, other = await api.new_key("jobs:read"), await api.new_key("schedules:write")
    path = f"/bulk-actions/{bulk_id}"
    assert (await api.call("GET", path, key=reader)).status == 200
    answer = await api.call("POST", f"{path}/stop", key=reader)
    assert (answer.status, answer.body["code"]) == (403, "forbidden")
    assert (await api.call("GET", path, key=other)).status == 404
    assert (await api.call("GET", "/bulk-actions", key=other)).body["bulk_actions"] == []
    page = await api.call("GET", "/bulk-actions?limit=1")
    assert page.body["bulk_actions"][0]["bulk_action_id"] == bulk_id


async def test_too_many_that_have_not_ended_are_refused(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_action, "MAX_OPEN", 1)
    made = await jobs(api, 2)
    await begin(api, "cancel_jobs", {}, made[:1])
    with pytest.raises(RefusedError, match="1 bulk actions have not ended"):
        await begin(api, "cancel_jobs", {}, made[1:])
