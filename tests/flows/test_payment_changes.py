import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from conftest import INTERNAL_TOKEN, Answered, Api, Clock
from postdate.tenant.change.tenant import KeyLimits, Tenants
from support.api_ledger import Ledger, open_ledger
from support.bank import drain, settler

INTERNAL = {"X-Internal-Auth": INTERNAL_TOKEN}


@pytest.fixture
async def ledger(api: Api) -> Ledger:
    return await open_ledger(api)


async def cancel(ledger: Ledger, payment_id: str, **more: Any) -> Answered:
    return await ledger.api.call("DELETE", f"/payments/{payment_id}/cancel", **more)


async def execute(ledger: Ledger, payment_id: str, name: str) -> Answered:
    path = f"/internal/payments/{payment_id}/execute"
    return await ledger.api.call("POST", path, {"execution_id": name}, headers=INTERNAL)


async def shown(ledger: Ledger, payment_id: str) -> dict[str, Any]:
    body: dict[str, Any] = (await ledger.api.call("GET", f"/payments/{payment_id}")).body
    return body


async def types(ledger: Ledger, payment_id: str) -> list[str]:
    answer = await ledger.api.call("GET", f"/payments/{payment_id}/events")
    return [event["type"] for event in answer.body["events"]]


async def test_a_cancel_releases_the_hold_once(ledger: Ledger) -> None:
    payment = (await ledger.order()).body["payment_id"]
    answer = await cancel(ledger, payment)
    assert (answer.status, answer.body) == (200, {"success": True, "status": "CANCELLED"})
    assert await ledger.held() == 0
    view = await shown(ledger, payment)
    assert (view["status"], "cancelled_at" in view) == ("CANCELLED", True)
    again = await cancel(ledger, payment)
    assert (again.status, again.body) == (200, answer.body), "its answer may have been lost"
    assert await types(ledger, payment) == ["payment.scheduled", "payment.cancelled"]


async def test_a_cancel_of_a_finished_payment_names_its_status(
    ledger: Ledger, clock: Clock
) -> None:
    payment = (await ledger.order()).body["payment_id"]
    await clock.advance(61)
    await drain(settler(ledger.api.node.database))
    answer = await cancel(ledger, payment)
    assert (answer.status, answer.body["payment_status"]) == (409, "COMPLETED")
    assert (await ledger.account("bob"))["balance"] == 100


async def test_a_cancel_of_nothing_and_of_anothers_payment_look_the_same(
    ledger: Ledger, api: Api
) -> None:
    payment = (await ledger.order()).body["payment_id"]
    tenants = Tenants(api.node.database)
    name = f"other-{uuid4().hex[:8]}"
    await tenants.create(name)
    other = (await tenants.issue(name, ["admin"])).key
    foreign, unknown = await cancel(ledger, payment, key=other), await cancel(ledger, str(uuid4()))
    assert (foreign.status, unknown.status) == (404, 404)
    assert foreign.body["detail"] == f"There is no payment {payment}."
    assert await ledger.held() == 100


async def test_a_limited_key_cancels_only_what_its_accounts_pay(ledger: Ledger) -> None:
    payment = (await ledger.order()).body["payment_id"]
    tenants = Tenants(ledger.api.node.database)

    async def key(account: str) -> str:
        limits = KeyLimits(accounts=[account])
        return (await tenants.issue(ledger.api.tenant, ["payments:write"], limits=limits)).key

    assert (await cancel(ledger, payment, key=await key("carol"))).status == 404
    assert (await cancel(ledger, payment, key=await key("bob"))).status == 403
    assert (await cancel(ledger, payment, key=await key("alice"))).status == 200


async def test_a_payment_moves_to_another_time(ledger: Ledger, clock: Clock) -> None:
    payment = (await ledger.order()).body["payment_id"]
    answer = await ledger.api.call("PATCH", f"/payments/{payment}", {"delay_seconds": 3600})
    assert (answer.status, answer.body["status"]) == (200, "PENDING")
    await clock.advance(120)
    one = settler(ledger.api.node.database)
    await drain(one)
    assert (await shown(ledger, payment))["status"] == "PENDING"
    earlier = (datetime.now(UTC) + timedelta(seconds=130)).isoformat()
    answer = await ledger.api.call("PATCH", f"/payments/{payment}", {"scheduled_time": earlier})
    assert (await shown(ledger, payment))["scheduled_time"] == answer.body["scheduled_time"]
    await clock.advance(12)
    await drain(one)
    view = await shown(ledger, payment)
    assert (view["status"], view["scheduled_time"]) == ("COMPLETED", answer.body["scheduled_time"])
    assert view["lateness_ms"] < 10_000
    refused = await ledger.api.call("PATCH", f"/payments/{payment}", {"delay_seconds": 5})
    assert (refused.status, refused.body["payment_status"]) == (409, "COMPLETED")
    assert await types(ledger, payment) == [
        "payment.scheduled",
        "payment.rescheduled",
        "payment.rescheduled",
        "payment.completed",
    ]


@pytest.mark.parametrize(
    ("body", "code", "field"),
    [
        ({}, "invalid_field", "delay_seconds"),
        ({"delay_seconds": 0}, "invalid_field", "delay_seconds"),
        ({"delay_seconds": 366 * 86400}, "time_out_of_range", "delay_seconds"),
        ({"scheduled_time": "2020-01-01T00:00:00Z"}, "time_out_of_range", "scheduled_time"),
        ({"delay_seconds": 5, "amount": 1}, "unknown_field", "amount"),
    ],
)
async def test_a_bad_time_is_refused_and_nothing_moves(
    ledger: Ledger, body: dict[str, Any], code: str, field: str
) -> None:
    payment = (await ledger.order()).body
    answer = await ledger.api.call("PATCH", f"/payments/{payment['payment_id']}", body)
    assert (answer.status, answer.body["code"], answer.body["field"]) == (422, code, field)
    view = await shown(ledger, payment["payment_id"])
    assert view["scheduled_time"] == payment["scheduled_time"]


async def test_an_execution_by_name_moves_money_once(ledger: Ledger, clock: Clock) -> None:
    payment = (await ledger.order()).body["payment_id"]
    early = await execute(ledger, payment, "run-1")
    assert (early.status, early.body["code"]) == (409, "not_due")
    await clock.advance(61)
    answers = await asyncio.gather(*(execute(ledger, payment, "run-1") for _ in range(12)))
    assert {(a.status, a.body["execution_id"]) for a in answers} == {(200, "run-1")}
    assert {a.body["settled_by_execution_id"] for a in answers} == {"run-1"}
    other = await execute(ledger, payment, "run-2")
    assert (other.status, other.body["execution_id"]) == (200, "run-2")
    assert other.body["settled_by_execution_id"] == "run-1"
    assert (await ledger.account("bob"))["balance"] == 100
    answer = await ledger.api.call("GET", f"/payments/{payment}/executions")
    assert [e["execution_id"] for e in answer.body["executions"]] == ["run-1"]


async def test_a_settled_payment_names_the_execution_that_settled_it(
    ledger: Ledger, clock: Clock
) -> None:
    payment = (await ledger.order()).body["payment_id"]
    await clock.advance(61)
    await drain(settler(ledger.api.node.database))
    answer = await execute(ledger, payment, "late")
    assert (answer.status, answer.body["settled_by_execution_id"]) == (200, f"{payment}.1")
    listed = await ledger.api.call("GET", f"/payments/{payment}/executions")
    assert [e["execution_id"] for e in listed.body["executions"]] == [f"{payment}.1"]


async def test_the_event_of_a_completed_payment_names_its_transfer(
    ledger: Ledger, clock: Clock
) -> None:
    payment = (await ledger.order()).body["payment_id"]
    await clock.advance(61)
    await drain(settler(ledger.api.node.database))
    shown = (await ledger.api.call("GET", f"/payments/{payment}")).body
    listed = (await ledger.api.call("GET", f"/payments/{payment}/events")).body["events"]
    assert listed[-1]["type"] == "payment.completed"
    assert listed[-1]["data"] == {
        "transfer_id": shown["transfer_id"],
        "from_account_id": "alice",
        "to_account_id": "bob",
        "amount": shown["amount"],
    }
    entries = (await ledger.api.call("GET", "/accounts/bob/entries")).body["entries"]
    assert shown["transfer_id"] in [entry["transfer_id"] for entry in entries]


async def test_an_execution_of_what_cannot_succeed_is_refused(ledger: Ledger, clock: Clock) -> None:
    cancelled = (await ledger.order()).body["payment_id"]
    await cancel(ledger, cancelled)
    short = (await ledger.order(amount=5000, funding="at_execution")).body["payment_id"]
    await clock.advance(61)
    failed = await execute(ledger, short, "x")
    assert failed.status == 200
    assert failed.body == {
        "success": False,
        "execution_id": "x",
        "status": "FAILED",
        "settled_by_execution_id": "x",
        "error_message": "Account alice has 1,000 available and must keep 0.",
    }
    assert (await execute(ledger, short, "x")).body == failed.body, "its answer may have been lost"
    for payment, status in ((cancelled, "CANCELLED"), (short, "FAILED")):
        answer = await execute(ledger, payment, "another")
        assert (answer.status, answer.body["code"]) == (409, "payment_not_pending"), answer
        assert answer.body["payment_status"] == status
    assert (await execute(ledger, str(uuid4()), "x")).status == 404
    refused = await ledger.api.call(
        "POST", f"/internal/payments/{short}/execute", {"execution_id": "x"}
    )
    assert refused.status == 401


async def test_nothing_is_executed_while_settlement_has_stopped(
    ledger: Ledger, clock: Clock
) -> None:
    payment = (await ledger.order()).body["payment_id"]
    await clock.advance(61)
    database = ledger.api.node.database
    put = (
        "INSERT INTO setting (tenant_id, name, operator, value, changed_by) "
        "VALUES (0, 'settlement.stopped', true, $1, 'test')"
    )
    await database.writer.execute(put, "audit")
    answer = await execute(ledger, payment, "x")
    await database.writer.execute("DELETE FROM setting WHERE name = 'settlement.stopped'")
    assert (answer.status, answer.body["code"]) == (503, "settlement_stopped")
    assert "audit" in answer.body["detail"]
    assert (await execute(ledger, payment, "x")).status == 200
