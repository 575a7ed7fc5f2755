from datetime import UTC, datetime, timedelta, timezone

import pytest

from conftest import Api
from postdate.tenant.change.tenant import Tenants
from support.api_ledger import Ledger, key, open_ledger


@pytest.fixture
async def ledger(api: Api) -> Ledger:
    return await open_ledger(api)


async def test_a_payment_is_held_now_and_shown_as_pending(ledger: Ledger) -> None:
    before = datetime.now(UTC)
    answer = await ledger.order(description="rent")
    assert answer.status == 201
    assert answer.body["status"] == "PENDING"
    due = datetime.fromisoformat(answer.body["scheduled_time"])
    assert timedelta(seconds=59) < due - before < timedelta(seconds=70)
    shown = await ledger.api.call("GET", f"/payments/{answer.body['payment_id']}")
    created_at = shown.body.pop("created_at")
    assert datetime.fromisoformat(created_at) < due
    assert shown.body == {
        **answer.body,
        "from_account_id": "alice",
        "to_account_id": "bob",
        "amount": 100,
        "funding": "hold",
        "description": "rent",
    }
    alice = await ledger.account("alice")
    assert (alice["balance"], alice["held"], alice["available"]) == (1000, 100, 900)
    assert alice["version"] == 1  # the hold made no entry


async def test_the_same_key_and_body_give_the_same_answer_once(ledger: Ledger) -> None:
    first, second = await ledger.order("once"), await ledger.order("once")
    assert (first.status, second.status) == (201, 201)
    assert first.body == second.body
    assert "idempotency-replayed" not in first.headers
    assert second.headers["idempotency-replayed"] == "true"
    assert await ledger.held() == 100


async def test_the_same_key_with_another_body_names_what_differs(ledger: Ledger) -> None:
    await ledger.order("once")
    answer = await ledger.order("once", amount=200, to_account_id="carol")
    assert (answer.status, answer.body["code"]) == (422, "idempotency_key_reused")
    assert answer.body["differs"] == ["amount", "to_account_id"]
    assert await ledger.held() == 100


async def test_a_refusal_is_remembered_under_its_key(ledger: Ledger) -> None:
    first = await ledger.order("poor", amount=2000)
    assert (first.status, first.body["code"]) == (422, "insufficient_funds")
    assert first.body["available"] == 1000
    await ledger.api.call(
        "POST", "/accounts/alice/adjustments", {"amount": 5000, "reason": "more"}, headers=key()
    )
    again = await ledger.order("poor", amount=2000)
    assert (again.status, again.headers["idempotency-replayed"]) == (422, "true")
    assert again.headers["Content-Type"] == "application/problem+json"
    for body in (first.body, again.body):
        del body["request_id"]
    assert again.body == first.body
    assert (await ledger.order(amount=2000)).status == 201


async def test_a_malformed_body_leaves_its_key_unused(ledger: Ledger) -> None:
    assert (await ledger.order("typo", amount="100")).status == 422
    assert (await ledger.order("typo")).status == 201


async def test_at_execution_holds_nothing(ledger: Ledger) -> None:
    until = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    answer = await ledger.order(
        amount=5000, funding="at_execution", on_insufficient={"retry_until": until}
    )
    assert answer.status == 201, answer
    assert await ledger.held() == 0
    shown = await ledger.api.call("GET", f"/payments/{answer.body['payment_id']}")
    assert (shown.body["funding"], shown.body["status"]) == ("at_execution", "PENDING")
    assert datetime.fromisoformat(shown.body["retry_until"]) == datetime.fromisoformat(until)


async def test_a_scheduled_time_keeps_its_instant(ledger: Ledger) -> None:
    wanted = (datetime.now(UTC) + timedelta(days=2)).replace(microsecond=250_000)
    elsewhere = wanted.astimezone(timezone(timedelta(hours=5, minutes=30)))
    answer = await ledger.order(scheduled_time=elsewhere.isoformat())
    assert datetime.fromisoformat(answer.body["scheduled_time"]) == wanted


async def test_events_tell_what_happened(ledger: Ledger) -> None:
    payment_id = (await ledger.order()).body["payment_id"]
    answer = await ledger.api.call("GET", f"/payments/{payment_id}/events")
    assert [event["type"] for event in answer.body["events"]] == ["payment.scheduled"]
    assert answer.body["events"][0]["data"]["amount"] == 100
    runs = await ledger.api.call("GET", f"/payments/{payment_id}/executions")
    assert runs.body == {"executions": []}


async def test_another_tenant_sees_nothing(ledger: Ledger, edge_server: Api) -> None:
    payment_id = (await ledger.order()).body["payment_id"]
    tenant = f"{ledger.api.tenant}-other"
    await Tenants(edge_server.node.database).create(tenant)
    other = await ledger.api.new_key("admin", tenant=tenant)
    absent = payment_id[:-4] + "0000"
    for path in ("", "/events", "/executions"):
        foreign = await ledger.api.call("GET", f"/payments/{payment_id}{path}", key=other)
        missing = await ledger.api.call("GET", f"/payments/{absent}{path}", key=other)
        assert (foreign.status, foreign.body["code"]) == (404, "not_found")
        assert foreign.body["detail"].replace(payment_id, "") == missing.body["detail"].replace(
            absent, ""
        )
    assert (await ledger.api.call("GET", "/payments", key=other)).body["payments"] == []
    assert (await ledger.api.call("GET", "/accounts/alice", key=other)).status == 404
