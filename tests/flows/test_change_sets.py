"""Change sets: their effect is what happens, they are applied once, resumed and undone."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec
import pytest

from conftest import Api, Clock
from postdate.change_set.change.lane_operation import LaneOperation
from postdate.core.ids import bucket_of
from postdate.core.setting.setting import Settings
from postdate.foresight.spec.money import FailingPayment
from postdate.foresight.view.effect import ChangeEffect, EffectViews
from postdate.job.change import bulk
from stations.test_retention import DAY, walk

WORKER = {"type": "worker"}


async def _jobs(api: Api, lane: str, count: int, delay_seconds: int = 3600) -> list[str]:
    body = {"destination": WORKER, "lane": lane, "delay_seconds": delay_seconds}
    made = [await api.call("POST", "/jobs", body) for _ in range(count)]
    return [each.body["job_id"] for each in made]


async def _draft(api: Api, *changes: dict[str, Any], **more: Any) -> dict[str, Any]:
    made = await api.call("POST", "/change-sets", {"changes": list(changes), **more})
    assert made.status == 201, made.body
    found: dict[str, Any] = made.body
    return found


async def _do(api: Api, draft: dict[str, Any], verb: str, status: int = 200) -> dict[str, Any]:
    done = await api.call("POST", f"/change-sets/{draft['change_set_id']}/{verb}")
    assert done.status == status, done.body
    found: dict[str, Any] = done.body
    return found


async def _statuses(api: Api, ids: list[str]) -> set[str]:
    return {(await api.call("GET", f"/jobs/{each}")).body["status"] for each in ids}


async def _due(api: Api, job_id: str) -> str:
    found: str = (await api.call("GET", f"/jobs/{job_id}")).body["next_attempt_at"]
    return found


async def test_moved_jobs_come_back_where_they_were(api: Api) -> None:
    ids = await _jobs(api, "mail", 3)
    before = [await _due(api, each) for each in ids]
    to = (datetime.now(UTC) + timedelta(hours=3)).isoformat()
    moving = {"type": "reschedule_jobs", "filter": {"lane": "mail"}, "to": {"run_at": to}}
    draft = await _draft(
        api, moving, {"type": "limit_lane", "lane": "mail", "rate_per_second": 0.0078125}
    )
    effect = draft["effect"]
    assert (draft["status"], effect["moved"]) == ("DRAFT", 3)
    [was] = [each for each in effect["queues_before"] if each["kind"] == "jobs"]
    now = [each for each in effect["queues_after"] if each["kind"] == "jobs"]
    assert was["peak"]["at"] < now[0]["peak"]["at"]
    limited = next(each for each in now if each["name"] == "mail")
    assert limited["lateness"]["worst"]["late_seconds"] >= 200
    assert [await _due(api, each) for each in ids] == before, "a draft changes nothing"
    later = await _jobs(api, "mail", 1)
    applied = await _do(api, draft, "apply")
    assert (applied["status"], applied["steps"][0]["changed"]) == ("APPLIED", 3)
    assert await _due(api, ids[0]) > before[0]
    assert await _due(api, later[0]) < await _due(api, ids[0]), "only what was shown is touched"
    assert (await _do(api, draft, "apply"))["status"] == "APPLIED"
    assert (await api.call("GET", "/lanes/mail")).body["rate_per_second"] == 0.0078125
    assert (await _do(api, draft, "undo"))["status"] == "UNDONE"
    assert [await _due(api, each) for each in ids] == before
    assert (await api.call("GET", "/lanes/mail")).body["rate_per_second"] is None
    assert (await _do(api, draft, "undo"))["status"] == "UNDONE"
    assert (await _do(api, draft, "apply", 409))["code"] == "conflict"


async def test_what_was_executed_is_not_undone(api: Api) -> None:
    [job] = await _jobs(api, "now", 1)
    to = {"delay_seconds": 0.001}
    filtered = {"lane": "now", "due_after": datetime.now(UTC).isoformat()}
    draft = await _draft(api, {"type": "reschedule_jobs", "filter": filtered, "to": to})
    await _do(api, draft, "apply")
    [lease] = (await api.call("POST", "/lanes/now/claim", {"max": 1, "wait_seconds": 5})).body[
        "leases"
    ]
    assert lease["job_id"] == job
    refused = await _do(api, draft, "undo", 409)
    assert "1 of its jobs" in refused["detail"]


async def test_what_was_executed_and_is_no_longer_kept_is_not_undone(
    api: Api, clock: Clock
) -> None:
    [job, other] = await _jobs(api, "now", 2)
    soon = {"type": "reschedule_jobs", "filter": {"lane": "now"}, "to": {"delay_seconds": 0.001}}
    draft = await _draft(api, soon)
    await _do(api, draft, "apply")
    leases = (await api.call("POST", "/lanes/now/claim", {"max": 2, "wait_seconds": 5})).body
    done = {each["job_id"]: each["token"] for each in leases["leases"]}
    assert set(done) == {job, other}
    answer = await api.call("POST", f"/leases/{job}/complete", {"token": done[job]})
    assert answer.status == 200, answer.body
    await api.call("POST", f"/leases/{other}/complete", {"token": done[other]})
    await clock.advance(31 * DAY)
    await walk(api.node.database, Settings())
    assert (await api.call("GET", f"/jobs/{job}")).status == 404
    refused = await _do(api, draft, "undo", 409)
    assert "2 of its jobs ended and are no longer kept" in refused["detail"]
    assert (await api.call("GET", f"/change-sets/{draft['change_set_id']}")).body["status"] == (
        "APPLIED"
    )


async def test_cancelled_jobs_are_made_anew(api: Api) -> None:
    ids = await _jobs(api, "mail", 2)
    draft = await _draft(api, {"type": "cancel_jobs", "filter": {"lane": "mail"}})
    await _do(api, draft, "apply")
    assert await _statuses(api, ids) == {"CANCELLED"}
    await _do(api, draft, "undo")
    waiting = (await api.call("GET", "/jobs?status=PENDING&lane=mail")).body["jobs"]
    assert {each["origin_id"] for each in waiting} == set(ids)
    assert await _statuses(api, ids) == {"CANCELLED"}


async def test_a_broken_off_apply_goes_on(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    await _jobs(api, "mail", 1)
    await _jobs(api, "post", 1)
    draft = await _draft(
        api, {"type": "pause_lane", "lane": "mail"}, {"type": "pause_lane", "lane": "post"}
    )
    assert draft["effect"]["held"] == 2
    make = LaneOperation.make

    async def die(self: LaneOperation, work: Any, change: Any) -> None:
        if change.lane == "post":
            raise RuntimeError("killed")
        await make(self, work, change)

    monkeypatch.setattr(LaneOperation, "make", die)
    assert (await api.call("POST", f"/change-sets/{draft['change_set_id']}/apply")).status == 500
    found = (await api.call("GET", f"/change-sets/{draft['change_set_id']}")).body
    assert (found["status"], [each["state"] for each in found["steps"]]) == (
        "APPLYING",
        ["done", "planned"],
    )
    monkeypatch.undo()
    assert (await _do(api, draft, "apply"))["status"] == "APPLIED"
    for lane in ("mail", "post"):
        assert (await api.call("GET", f"/lanes/{lane}")).body["paused_at"] is not None
    await _do(api, draft, "undo")
    for lane in ("mail", "post"):
        assert (await api.call("GET", f"/lanes/{lane}")).body["paused_at"] is None


async def test_money_and_schedules_are_supposed(api: Api) -> None:
    for name in ("ada", "rent"):
        await api.call("POST", "/accounts", {"account_id": name})
    pay = {"from_account_id": "ada", "to_account_id": "rent", "amount": 100}
    rule = {"every_seconds": 3600, "template": {"payment": pay}}
    schedule_id = (await api.call("POST", "/schedules", rule)).body["schedule_id"]
    pausing = await _draft(api, {"type": "pause_schedule", "schedule_id": schedule_id})
    effect = pausing["effect"]
    assert effect["failing_before"] == effect["skipped"] in {23, 24}
    assert (effect["failing_after"], effect["failing"]) == (0, [])
    policy = {"jitter_seconds": 60, "insufficient_funds": {"policy": "retry", "retry_seconds": 60}}
    draft = await _draft(api, {"type": "change_policy", "schedule_id": schedule_id, **policy})
    await _do(api, draft, "apply")
    shown = (await api.call("GET", f"/schedules/{schedule_id}")).body
    assert shown["jitter_seconds"] == 60
    await _do(api, draft, "undo")
    assert (await api.call("GET", f"/schedules/{schedule_id}")).body["jitter_seconds"] == 0
    until = (datetime.now(UTC) + timedelta(hours=2)).isoformat()
    frozen = await _draft(api, {"type": "freeze", "until_at": until})
    assert frozen["effect"]["held"] in {1, 2, 3}
    await _do(api, frozen, "apply")
    assert (await api.call("GET", "/halts")).body["halts"][0]["kind"] == "freeze"
    await _do(api, frozen, "undo")
    assert (await api.call("GET", "/halts")).body["halts"] == []


async def test_each_change_needs_its_own_scope(api: Api) -> None:
    await _jobs(api, "mail", 1)
    body = {"changes": [{"type": "pause_lane", "lane": "mail"}]}
    reads = await api.new_key("jobs:read")
    refused = await api.call("POST", "/change-sets", body, key=reads)
    assert (refused.status, refused.body["field"]) == (403, "changes[0]")
    draft = await _draft(api, *body["changes"])
    denied = await api.call("POST", f"/change-sets/{draft['change_set_id']}/apply", key=reads)
    assert denied.status == 403
    nobody = {"changes": [{"type": "pause_lane", "lane": "none"}]}
    assert (await api.call("POST", "/change-sets", nobody)).status == 404
    assert (await api.call("POST", "/change-sets", {"changes": [{"type": "x"}]})).status == 422


async def test_a_refused_undo_leaves_a_broken_off_set_to_be_applied(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _jobs(api, "now", 1)
    await _jobs(api, "post", 1)
    filtered = {"lane": "now", "due_after": datetime.now(UTC).isoformat()}
    draft = await _draft(
        api,
        {"type": "reschedule_jobs", "filter": filtered, "to": {"delay_seconds": 0.001}},
        {"type": "pause_lane", "lane": "post"},
    )

    async def die(*_: Any) -> None:
        raise RuntimeError("killed")

    monkeypatch.setattr(LaneOperation, "make", die)
    assert (await api.call("POST", f"/change-sets/{draft['change_set_id']}/apply")).status == 500
    monkeypatch.undo()
    claimed = await api.call("POST", "/lanes/now/claim", {"max": 1, "wait_seconds": 5})
    assert len(claimed.body["leases"]) == 1
    await _do(api, draft, "undo", 409)
    again = await _do(api, draft, "apply")
    assert [each["state"] for each in again["steps"]] == ["done", "done"]
    assert (await api.call("GET", "/lanes/post")).body["paused_at"] is not None


async def test_a_deleted_schedule_does_not_stop_the_undoing(api: Api) -> None:
    await _jobs(api, "mail", 1)
    rule = {"every_seconds": 3600, "template": {"job": {"destination": WORKER}}}
    schedule_id = (await api.call("POST", "/schedules", rule)).body["schedule_id"]
    draft = await _draft(
        api,
        {"type": "pause_lane", "lane": "mail"},
        {"type": "pause_schedule", "schedule_id": schedule_id},
    )
    await _do(api, draft, "apply")
    await api.call("DELETE", f"/schedules/{schedule_id}")
    assert (await _do(api, draft, "undo"))["status"] == "UNDONE"
    assert (await api.call("GET", "/lanes/mail")).body["paused_at"] is None


async def test_a_draft_tells_no_key_more_than_it_may_read(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _jobs(api, "mail", 1)
    computed, now = EffectViews.effect, datetime.now(UTC)
    fails = FailingPayment(
        due_at=now, fails_at=now, code="insufficient_funds", from_account_id="ada",
        to_account_id="rent", amount=1, available=0, payment_id=None, schedule_id=None,
    )  # fmt: skip

    async def failing(*asked: Any) -> ChangeEffect:
        return msgspec.structs.replace(await computed(*asked), failing=[fails])

    monkeypatch.setattr(EffectViews, "effect", failing)
    body = {"changes": [{"type": "pause_lane", "lane": "mail"}]}
    seen = await api.call("POST", "/change-sets", body)
    assert len(seen.body["effect"]["failing"]) == 1
    writes = await api.new_key("jobs:write")
    made = await api.call("POST", "/change-sets", body, key=writes)
    assert (made.status, made.body["effect"]["failing"]) == (201, [])
    limited = {"scopes": ["jobs:write"], "accounts": ["ada"]}
    key = (await api.call("POST", "/keys", limited)).body["key"]
    for path in ("/change-sets", f"/change-sets/{made.body['change_set_id']}"):
        assert (await api.call("GET", path, key=key)).status == 403


async def test_values_beyond_all_bounds_are_refused(api: Api) -> None:
    await _jobs(api, "mail", 1)
    slow = {"type": "limit_lane", "lane": "mail", "rate_per_second": 1e-300}
    assert (await api.call("POST", "/change-sets", {"changes": [slow]})).status == 422
    late = {"until_at": "9999-12-31T23:59:59-14:00"}
    body = {"changes": [{"type": "pause_lane", "lane": "mail"}], **late}
    refused = await api.call("POST", "/change-sets", body)
    assert (refused.status, refused.body["field"]) == (422, "until_at")


async def test_what_is_made_anew_expires_when_the_old_one_did(api: Api, clock: Clock) -> None:
    body = {"destination": WORKER, "lane": "mail", "delay_seconds": 600}
    ends = [(datetime.now(UTC) + timedelta(seconds=each)).isoformat() for each in (700, 7200)]
    for expires_at in ends:
        await api.call("POST", "/jobs", {**body, "expires_at": expires_at})
    draft = await _draft(api, {"type": "cancel_jobs", "filter": {"lane": "mail"}})
    await _do(api, draft, "apply")
    await clock.advance(1000)
    await _do(api, draft, "undo")
    jobs = (await api.call("GET", "/jobs?lane=mail")).body["jobs"]
    [anew] = [each for each in jobs if each.get("origin_id")]
    assert datetime.fromisoformat(anew["expires_at"]) == datetime.fromisoformat(ends[1])


async def test_undoing_leaves_what_somebody_else_has_set_since(api: Api) -> None:
    await _jobs(api, "mail", 1)
    until = datetime.now(UTC) + timedelta(hours=2)
    limit = {"type": "limit_lane", "lane": "mail", "rate_per_second": 5.1}
    draft = await _draft(api, limit, {"type": "freeze", "until_at": until.isoformat()})
    await _do(api, draft, "apply")
    await api.call("PATCH", "/lanes/mail", {"rate_per_second": 1})
    longer = {"until": (until + timedelta(hours=1)).isoformat(), "note": "not yet"}
    assert (await api.call("PUT", "/freeze", longer)).status == 200
    await _do(api, draft, "undo")
    assert (await api.call("GET", "/lanes/mail")).body["rate_per_second"] == 1
    assert (await api.call("GET", "/halts")).body["halts"][0]["note"] == "not yet"
    again = await _draft(api, limit)
    await _do(api, again, "apply")
    await _do(api, again, "undo")
    assert (await api.call("GET", "/lanes/mail")).body["rate_per_second"] == 1


async def test_a_set_changes_each_thing_once(api: Api) -> None:
    await _jobs(api, "mail", 1)
    until = (datetime.now(UTC) + timedelta(hours=2)).isoformat()
    filtered = {"filter": {"lane": "mail"}}
    cancelling, pausing = (
        {"type": "cancel_jobs", **filtered},
        {"type": "pause_lane", "lane": "mail"},
    )
    near, far = [
        {"type": "reschedule_jobs", **filtered, "to": {"delay_seconds": seconds}}
        for seconds in (7200, 9000)
    ]
    freezing = {"type": "freeze", "until_at": until}
    for one, other in ((near, cancelling), (near, far), (pausing, pausing), (freezing, freezing)):
        refused = await api.call("POST", "/change-sets", {"changes": [one, other]})
        assert (refused.status, refused.body["field"]) == (422, "changes[1]"), other
    nothing = {"type": "cancel_jobs", "filter": {"lane": "none"}}
    await _draft(api, near, pausing, nothing, nothing)


async def test_as_many_jobs_as_a_filter_may_find_are_moved(api: Api) -> None:
    body = {"destination": WORKER, "lane": "big", "delay_seconds": 36_000}
    for _ in range(10):
        await api.call("POST", "/jobs/batch", {"jobs": [body] * 1000})
    to = {"delay_seconds": 72_000}
    draft = await _draft(api, {"type": "reschedule_jobs", "filter": {"lane": "big"}, "to": to})
    assert (await _do(api, draft, "apply"))["steps"][0]["changed"] == 10_000
    later = [
        {"type": "reschedule_jobs", "filter": {"lane": lane}, "to": to} for lane in ("big", "more")
    ]
    await _jobs(api, "more", 1)
    refused = await api.call("POST", "/change-sets", {"changes": later})
    assert (refused.status, refused.body["field"]) == (422, "changes")


async def test_a_job_that_somebody_holds_is_not_left_out(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "WAIT_SECONDS", 0.2)
    ids = await _jobs(api, "mail", 2)
    before = [await _due(api, each) for each in ids]
    filtered = {"filter": {"lane": "mail"}}
    draft = await _draft(
        api, {"type": "reschedule_jobs", **filtered, "to": {"delay_seconds": 9000}}
    )
    lock = "SELECT FROM timer WHERE bucket = $1 AND subject = $2 FOR UPDATE"
    for verb, status in (("apply", "APPLIED"), ("undo", "UNDONE")):
        async with api.node.database.write() as connection:
            held = UUID(ids[0])
            await connection.execute(lock, bucket_of(held), held)
            assert (await _do(api, draft, verb, 503))["code"] == "overloaded"
        done = await _do(api, draft, verb)
        assert (done["status"], done["steps"][0]["changed"]) == (status, 2)
    assert done["steps"][0]["left"] == []
    assert [await _due(api, each) for each in ids] == before
