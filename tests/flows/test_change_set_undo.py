"""Undoing a change set gives back what it changed, and nothing that others have changed since."""

import itertools
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from conftest import Api, Clock
from flows.test_change_sets import WORKER, _do, _draft, _due, _jobs, _statuses
from postdate.change_set.change import payment_operation
from postdate.change_set.change.step_work import StepWork
from postdate.database.connection.error import UnavailableError
from postdate.halt import change as halt
from postdate.halt import store as halt_store
from postdate.ledger.prove import prove
from postdate.setting.change import SettingChanges
from support.bank import settler

_keys = itertools.count(1)


async def _account(api: Api, name: str, amount: int = 0) -> None:
    assert (await api.call("POST", "/accounts", {"account_id": name})).status == 201
    if amount:
        body, headers = {"amount": amount, "reason": "start"}, {"Idempotency-Key": f"s{name}"}
        await api.call("POST", f"/accounts/{name}/adjustments", body, headers=headers)


async def _pay(api: Api, amount: int, delay_seconds: int = 3600, **more: Any) -> str:
    body = {"from_account_id": "ada", "to_account_id": "rent", "amount": amount, **more}
    headers = {"Idempotency-Key": f"pay{next(_keys)}"}
    made = await api.call(
        "POST", "/payments/schedule", {**body, "delay_seconds": delay_seconds}, headers=headers
    )
    assert made.status == 201, made.body
    found: str = made.body["payment_id"]
    return found


async def _held(api: Api) -> int:
    found: int = (await api.call("GET", "/accounts/ada")).body["held"]
    return found


async def _schedule(api: Api) -> str:
    rule = {"every_seconds": 3600, "template": {"job": {"destination": WORKER}}}
    found: str = (await api.call("POST", "/schedules", rule)).body["schedule_id"]
    return found


def _left(found: dict[str, Any]) -> list[str]:
    return [why for step in found["steps"] for why in step["left"]]


async def test_pauses_of_others_stay(api: Api) -> None:
    await _jobs(api, "mail", 1)
    schedule_id = await _schedule(api)
    draft = await _draft(
        api,
        {"type": "pause_lane", "lane": "mail"},
        {"type": "pause_schedule", "schedule_id": schedule_id},
    )
    await _do(api, draft, "apply")
    await api.call("POST", "/lanes/mail/pause", {"note": "mine"})
    for verb in ("resume", "pause"):
        await api.call("POST", f"/schedules/{schedule_id}/{verb}", {"note": "mine"})
    undone = await _do(api, draft, "undo")
    assert undone["status"] == "UNDONE"
    assert [why.split(":")[0] for why in _left(undone)] == [
        "lane mail",
        f"schedule {schedule_id}",
    ]
    lane = (await api.call("GET", "/lanes/mail")).body
    assert (lane["paused_note"], lane["paused_at"] is not None) == ("mine", True)
    schedule = (await api.call("GET", f"/schedules/{schedule_id}")).body
    assert schedule["paused_note"] == "mine"


async def test_what_was_paused_before_stays_paused(api: Api) -> None:
    await _jobs(api, "mail", 1)
    schedule_id = await _schedule(api)
    await api.call("POST", "/lanes/mail/pause", {"note": "mine"})
    await api.call("POST", f"/schedules/{schedule_id}/pause", {"note": "mine"})
    draft = await _draft(
        api,
        {"type": "pause_lane", "lane": "mail"},
        {"type": "pause_schedule", "schedule_id": schedule_id},
    )
    await _do(api, draft, "apply")
    assert (await api.call("GET", "/lanes/mail")).body["paused_note"] == "mine"
    assert _left(await _do(api, draft, "undo")) == []
    assert (await api.call("GET", "/lanes/mail")).body["paused_at"] is not None


async def test_a_policy_that_somebody_else_has_set_stays(api: Api) -> None:
    schedule_id = await _schedule(api)
    policy = {"type": "change_policy", "schedule_id": schedule_id, "jitter_seconds": 60}
    draft = await _draft(api, policy)
    await _do(api, draft, "apply")
    await api.call("PATCH", f"/schedules/{schedule_id}", {"jitter_seconds": 90})
    undone = await _do(api, draft, "undo")
    assert "policies were changed by others" in _left(undone)[0]
    assert (await api.call("GET", f"/schedules/{schedule_id}")).body["jitter_seconds"] == 90


async def test_what_somebody_else_has_cancelled_is_not_made_anew(api: Api) -> None:
    ids = await _jobs(api, "mail", 3)
    draft = await _draft(api, {"type": "cancel_jobs", "filter": {"lane": "mail"}})
    await api.call("POST", f"/jobs/{ids[0]}/cancel")
    assert (await _do(api, draft, "apply"))["steps"][0]["changed"] == 2
    await _do(api, draft, "undo")
    anew = (await api.call("GET", "/jobs?status=PENDING&lane=mail")).body["jobs"]
    assert {each["origin_id"] for each in anew} == set(ids[1:])
    assert await _statuses(api, ids) == {"CANCELLED"}


async def test_what_somebody_else_has_moved_or_cancelled_stays(api: Api) -> None:
    ids = await _jobs(api, "mail", 3)
    before = await _due(api, ids[2])
    to = {"delay_seconds": 7200}
    draft = await _draft(api, {"type": "reschedule_jobs", "filter": {"lane": "mail"}, "to": to})
    await _do(api, draft, "apply")
    await api.call("PATCH", f"/jobs/{ids[0]}", {"delay_seconds": 10_000})
    theirs = await _due(api, ids[0])
    await api.call("POST", f"/jobs/{ids[1]}/cancel")
    undone = await _do(api, draft, "undo")
    assert _left(undone) == ["2 jobs were changed or ended by others since"]
    assert (await _due(api, ids[0]), await _due(api, ids[2])) == (theirs, before)


async def test_a_halt_is_made_and_lifted(api: Api) -> None:
    await _jobs(api, "mail", 2)
    halt = {"type": "halt"}
    wrong = {"changes": [halt, {"type": "pause_lane", "lane": "mail"}]}
    assert (await api.call("POST", "/change-sets", wrong)).body["field"] == "changes[0]"
    draft = await _draft(api, {"type": "pause_lane", "lane": "mail"}, halt)
    assert draft["effect"]["held"] >= 2
    assert (await _do(api, draft, "apply"))["status"] == "APPLIED"
    assert (await api.call("POST", "/lanes/mail/resume")).body["code"] == "tenant_halted"
    assert (await _do(api, draft, "apply"))["status"] == "APPLIED"
    undone = await _do(api, draft, "undo")
    assert (undone["status"], _left(undone)) == ("UNDONE", [])
    assert (await api.call("GET", "/halts")).body["halts"] == []
    assert (await api.call("GET", "/lanes/mail")).body["paused_at"] is None


async def test_a_halt_is_done_when_all_has_ended_that_began_before(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(halt, "MAX_WAITS", 1)
    draft = await _draft(api, {"type": "halt"})
    tenant_id = int(
        await api.node.database.writer.fetchval(
            "SELECT tenant_id FROM tenant WHERE name = $1", api.tenant
        )
    )
    async with api.node.database.write() as connection:
        await halt_store.refuse_killed(connection, tenant_id)
        for _ in range(2):
            assert (await _do(api, draft, "apply", 503))["code"] == "overloaded"
            shown = (await api.call("GET", f"/change-sets/{draft['change_set_id']}")).body
            assert (shown["status"], shown["steps"][0]["state"]) == ("APPLYING", "begun")
    assert (await _do(api, draft, "apply"))["status"] == "APPLIED"
    assert _left(await _do(api, draft, "undo")) == []
    assert (await api.call("GET", "/halts")).body["halts"] == []


async def test_a_halt_of_somebody_else_stays(api: Api) -> None:
    draft = await _draft(api, {"type": "halt"})
    await _do(api, draft, "apply")
    assert (await api.call("PUT", "/kill-switch", {"note": "theirs"})).status == 200
    undone = await _do(api, draft, "undo")
    assert _left(undone) == ["halt: it was set or lifted by others since"]
    assert (await api.call("GET", "/halts")).body["halts"][0]["note"] == "theirs"


async def test_a_setting_is_set_and_given_back(api: Api) -> None:
    await _jobs(api, "mail", 5)
    change = {"type": "put_setting", "name": "foresight.jobs_per_second", "value": 0.01}
    draft = await _draft(api, change)
    [after] = [each for each in draft["effect"]["queues_after"] if each["kind"] == "jobs"]
    assert after["capacity"] == {"per_second": 0.01, "source": "setting", "at_least": False}
    assert after["lateness"]["worst"]["late_seconds"] >= 400

    async def own() -> Any:
        rows = (await api.call("GET", "/settings")).body["settings"]
        return next(row["value"] for row in rows if row["name"] == change["name"])

    await _do(api, draft, "apply")
    assert await own() == 0.01
    assert _left(await _do(api, draft, "undo")) == []
    assert await own() == 0
    again = await _draft(api, change)
    await _do(api, again, "apply")
    await api.call("PUT", f"/settings/{change['name']}", {"value": 7.0})
    assert "set by others" in _left(await _do(api, again, "undo"))[0]
    assert await own() == 7
    refused = {"changes": [{"type": "put_setting", "name": "nothing", "value": 1}]}
    assert (await api.call("POST", "/change-sets", refused)).status == 422


async def test_a_value_that_is_no_longer_allowed_does_not_stop_the_undoing(api: Api) -> None:
    await _jobs(api, "mail", 1)
    name = "payment.max_amount"
    await api.call("PUT", f"/settings/{name}", {"value": 1000})
    setting = {"type": "put_setting", "name": name, "value": 100}
    draft = await _draft(api, {"type": "pause_lane", "lane": "mail"}, setting)
    await _do(api, draft, "apply")
    found = "SELECT tenant_id FROM tenant WHERE name = $1"
    tenant_id = await api.node.database.writer.fetchval(found, api.tenant)
    await SettingChanges(api.node.database).put(tenant_id, name, 500)
    undone = await _do(api, draft, "undo")
    assert undone["status"] == "UNDONE"
    assert "the operator allows 500" in _left(undone)[0]
    assert (await api.call("GET", "/lanes/mail")).body["paused"] is False


async def test_an_undoing_that_was_broken_off_only_goes_on(
    api: Api, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(payment_operation, "BATCH", 1)
    await _account(api, "rent")
    await _account(api, "ada", 100)
    ids = [await _pay(api, 10) for _ in range(2)]
    moving = {"type": "reschedule_payments", "filter": {"to_account_id": "rent"}}
    draft = await _draft(api, {**moving, "to": {"delay_seconds": 60}})
    await _do(api, draft, "apply")
    batches = iter([payment_operation._moved_back])

    async def die(*given: Any) -> None:
        await next(batches)(*given)

    with monkeypatch.context() as broken:
        broken.setattr(payment_operation, "_moved_back", die)
        await _do(api, draft, "undo", 500)
    await clock.advance(70)
    assert await settler(api.node.database).run_once() == 1
    assert (await _do(api, draft, "apply", 409))["current_status"] == "UNDOING"
    undone = await _do(api, draft, "undo")
    assert _left(undone) == ["1 payments were changed or ended by others since"]
    statuses = [(await api.call("GET", f"/payments/{each}")).body["status"] for each in ids]
    assert sorted(statuses) == ["COMPLETED", "PENDING"]
    assert (await prove(api.node.database)).findings == []


async def test_cancelled_payments_free_their_holds_and_come_back(api: Api) -> None:
    await _account(api, "rent")
    await _account(api, "ada", 100)
    ids = [await _pay(api, amount, description="rent") for amount in (30, 20)]
    draft = await _draft(api, {"type": "cancel_payments", "filter": {"from_account_id": "ada"}})
    [step], effect = draft["steps"], draft["effect"]
    assert (step["payments"], step["amount"], step["more"]) == (2, 50, False)
    figures = [effect[name] for name in ("moved", "moved_amount", "released_amount")]
    assert figures == [2, 50, 50]
    assert await _held(api) == 50, "a draft changes nothing"
    await _do(api, draft, "apply")
    assert await _held(api) == 0
    undone = await _do(api, draft, "undo")
    assert undone["steps"][0]["restored"] == 2
    where = f"/change-sets/{draft['change_set_id']}/items"
    items = (await api.call("GET", where)).body["items"]
    restored = {each["payment_id"]: each["restored_as"] for each in items}
    assert (set(restored), await _held(api)) == (set(ids), 50)
    for old, new in restored.items():
        was, now = [(await api.call("GET", f"/payments/{each}")).body for each in (old, new)]
        assert (was["status"], now["status"]) == ("CANCELLED", "PENDING")
        for name in ("amount", "scheduled_time", "description", "to_account_id"):
            assert was[name] == now[name]
        events = (await api.call("GET", f"/payments/{old}/events")).body["events"]
        assert events[-1]["data"]["payment_id"] == new
    await _do(api, draft, "undo")
    assert (await api.call("GET", where)).body["items"] == items
    assert await _held(api) == 50


async def test_a_hold_that_no_longer_fits_is_not_taken_back(api: Api) -> None:
    await _account(api, "rent")
    await _account(api, "ada", 100)
    first = await _pay(api, 60)
    draft = await _draft(api, {"type": "cancel_payments", "filter": {"from_account_id": "ada"}})
    await _do(api, draft, "apply")
    await _pay(api, 80)
    undone = await _do(api, draft, "undo")
    assert _left(undone) == [f"payment {first}: insufficient_funds"]
    assert await _held(api) == 80


async def test_what_is_left_is_said_once(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    await _account(api, "rent")
    await _account(api, "ada", 100)
    first = await _pay(api, 60)
    draft = await _draft(api, {"type": "cancel_payments", "filter": {"from_account_id": "ada"}})
    await _do(api, draft, "apply")
    await _pay(api, 80)

    async def die(*_: object) -> None:
        raise UnavailableError

    with monkeypatch.context() as broken:
        broken.setattr(StepWork, "undone", die)
        await _do(api, draft, "undo", 503)
    assert _left(await _do(api, draft, "undo")) == [f"payment {first}: insufficient_funds"]


async def test_payments_are_moved_and_moved_back(api: Api) -> None:
    await _account(api, "rent")
    await _account(api, "ada", 100)
    ids = [await _pay(api, 10) for _ in range(3)]

    async def due(payment_id: str) -> str:
        found: str = (await api.call("GET", f"/payments/{payment_id}")).body["scheduled_time"]
        return found

    before = [await due(each) for each in ids]
    to = {"scheduled_time": (datetime.now(UTC) + timedelta(days=2)).isoformat()}
    filtered = {"from_account_id": "ada", "due_before": before[-1][:-1] + "9Z"}
    draft = await _draft(api, {"type": "reschedule_payments", "filter": filtered, "to": to})
    assert draft["effect"]["moved_amount"] == 30
    await _do(api, draft, "apply")
    assert {await due(each) for each in ids}.isdisjoint(before)
    await api.call("PATCH", f"/payments/{ids[1]}", {"delay_seconds": 9999})
    theirs = await due(ids[1])
    undone = await _do(api, draft, "undo")
    assert _left(undone) == ["1 payments were changed or ended by others since"]
    assert [await due(each) for each in ids] == [before[0], theirs, before[2]]
    assert await _held(api) == 30


async def test_moved_payments_that_were_executed_are_not_undone(api: Api, clock: Clock) -> None:
    await _account(api, "rent")
    await _account(api, "ada", 100)
    await _pay(api, 10)
    filtered = {"from_account_id": "ada"}
    to = {"delay_seconds": 60}
    draft = await _draft(api, {"type": "reschedule_payments", "filter": filtered, "to": to})
    await _do(api, draft, "apply")
    await clock.advance(70)
    assert await settler(api.node.database).run_once() == 1
    refused = await _do(api, draft, "undo", 409)
    assert refused["detail"] == "1 of its payments were executed."
    assert (await _do(api, draft, "apply"))["status"] == "APPLIED"


async def test_the_ledger_is_proved_after_it(api: Api) -> None:
    await _account(api, "rent")
    await _account(api, "ada", 100)
    await _pay(api, 30)
    draft = await _draft(api, {"type": "cancel_payments", "filter": {"to_account_id": "rent"}})
    for verb in ("apply", "undo"):
        await _do(api, draft, verb)
    assert (await prove(api.node.database)).findings == []


async def test_an_undo_names_the_payments_that_are_no_longer_kept(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _account(api, "ada", 1000)
    await _account(api, "rent")
    gone, kept = await _pay(api, 300), await _pay(api, 200)
    draft = await _draft(api, {"type": "cancel_payments", "filter": {"from_account_id": "ada"}})
    await _do(api, draft, "apply")
    load = payment_operation.PaymentOperation._load

    async def without_one(self: Any, *asked: Any) -> list[Any]:
        return [row for row in await load(self, *asked) if str(row.payment_id) != gone]

    monkeypatch.setattr(payment_operation.PaymentOperation, "_load", without_one)
    undone = await _do(api, draft, "undo")
    assert _left(undone) == [f"payment {gone}: it is no longer kept"]
    items = (await api.call("GET", f"/change-sets/{draft['change_set_id']}/items")).body["items"]
    assert {each["payment_id"]: bool(each["restored_as"]) for each in items} == {
        gone: False,
        kept: True,
    }
