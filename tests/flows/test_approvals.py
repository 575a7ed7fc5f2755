"""Large payments wait for a second person: none approves his own, and nothing moves before."""

from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

import pytest

from conftest import INTERNAL_TOKEN, Answered, Api, Clock
from postdate.database.connection import clock as clock_store
from postdate.database.connection.database import Database
from postdate.database.connection.error import CheckViolationError
from postdate.halt.change import Halting
from postdate.halt.spec import Halts
from postdate.ledger.prove import prove
from postdate.node import schedule as wiring
from postdate.payment.change.approval import Approvals
from postdate.proof import prove as proof
from postdate.proof.prove import LedgerFinding, Range, snapshot
from postdate.scheduler.expander import Expander
from postdate.tenant.change.tenant import KeyLimits, Tenants
from support.bank import drain, settler
from support.event import seal_all
from support.schedule import book
from support.schedule import drain as expand_all


@pytest.fixture
async def asks(api: Api) -> Api:
    """The tenant, with money and a threshold, seen by a key that may schedule."""
    for account in ("alice", "bob"):
        await api.call("POST", "/accounts", {"account_id": account})
    credit = {"amount": 10_000, "reason": "start"}
    headers = {"Idempotency-Key": str(uuid4())}
    await api.call("POST", "/accounts/alice/adjustments", credit, headers=headers)
    await api.call("PUT", "/settings/payment.approval_above", {"value": 100})
    await api.node.refresh_settings()
    scopes = ("payments:write", "payments:read", "payments:approve")
    return replace(api, key=await api.new_key(*scopes))


@pytest.fixture
async def second(api: Api) -> Api:
    return replace(api, key=await api.new_key("payments:approve"))


async def pay(api: Api, amount: int = 101, delay: int = 60) -> Answered:
    order = {"from_account_id": "alice", "to_account_id": "bob"}
    headers = {"Idempotency-Key": str(uuid4())}
    body = {**order, "amount": amount, "delay_seconds": delay}
    return await api.call("POST", "/payments/schedule", body, headers=headers)


async def tenant_number(api: Api) -> int:
    number = await api.node.database.writer.fetchval(
        "SELECT tenant_id FROM tenant WHERE name = $1", api.tenant
    )
    return int(number)


async def look(api: Api, payment_id: str) -> Any:
    return (await api.call("GET", f"/payments/{payment_id}")).body


async def test_it_settles_only_after_another_key_has_approved(
    asks: Api, second: Api, clock: Clock
) -> None:
    database = asks.node.database
    made = await pay(asks)
    assert made.status == 201
    assert (made.body["status"], made.body["approval"]) == ("PENDING", {"required": True})
    payment_id = made.body["payment_id"]
    assert "approval" not in (await pay(asks, 100)).body
    await clock.advance(120)
    await drain(settler(database))
    seen = await look(asks, payment_id)
    assert (seen["status"], seen["approval"]["required"]) == ("PENDING", True)
    listed = (await asks.call("GET", "/payments")).body["payments"]
    assert next(p for p in listed if p["payment_id"] == seen["payment_id"]) == seen
    waiting = (await second.call("GET", "/approvals")).body["payments"]
    assert [one["payment_id"] for one in waiting] == [payment_id]
    own = await asks.call("POST", f"/payments/{payment_id}/approve", {})
    assert (own.status, own.body["code"]) == (403, "approval_by_requester")
    executed = await asks.call(
        "POST",
        f"/internal/payments/{payment_id}/execute",
        {"execution_id": "x"},
        headers={"X-Internal-Auth": INTERNAL_TOKEN},
    )
    assert (executed.status, executed.body["code"]) == (409, "approval_missing")
    approved = await second.call("POST", f"/payments/{payment_id}/approve", {"note": "seen"})
    assert (approved.status, approved.body["decision"]) == (200, "approved")
    again = await second.call("POST", f"/payments/{payment_id}/approve", {})
    assert (again.status, again.body["code"]) == (409, "conflict")
    await drain(settler(database))
    seen = await look(asks, payment_id)
    assert (seen["status"], seen["approval"]["note"]) == ("COMPLETED", "seen")
    assert (await second.call("GET", "/approvals")).body["payments"] == []


async def test_a_refusal_releases_the_hold(api: Api, asks: Api, second: Api) -> None:
    payment_id = (await pay(asks)).body["payment_id"]
    refused = await second.call("POST", f"/payments/{payment_id}/refuse", {"note": "no"})
    assert refused.body["decision"] == "refused"
    seen = await look(asks, payment_id)
    assert (seen["status"], seen["error_code"]) == ("CANCELLED", "approval_refused")
    assert (await api.call("GET", "/accounts/alice")).body["held"] == 0
    again = await second.call("POST", f"/payments/{payment_id}/approve", {})
    assert (again.status, again.body["code"]) == (409, "payment_not_pending")


async def test_what_nobody_decides_on_expires(api: Api, asks: Api, clock: Clock) -> None:
    payment_id = (await pay(asks)).body["payment_id"]
    approvals = Approvals(asks.node.database)
    assert await approvals.run_once() == 0
    await clock.advance(86_401)
    assert await approvals.run_once() == 1
    seen = await look(asks, payment_id)
    assert (seen["status"], seen["error_code"]) == ("FAILED", "approval_expired")
    assert seen["approval"]["decision"] == "expired"
    assert (await api.call("GET", "/accounts/alice")).body["held"] == 0
    tenant_id = await asks.node.database.writer.fetchval(
        "SELECT tenant_id FROM tenant WHERE name = $1", api.tenant
    )
    assert (await prove(asks.node.database, tenant_id)).findings == []


async def test_whoever_asked_may_still_cancel_and_reschedule(asks: Api, second: Api) -> None:
    payment_id = (await pay(asks)).body["payment_id"]
    moved = await asks.call("PATCH", f"/payments/{payment_id}", {"delay_seconds": 600})
    assert moved.status == 200
    assert (await asks.call("DELETE", f"/payments/{payment_id}/cancel")).status == 200
    assert (await look(asks, payment_id))["approval"]["decision"] == "withdrawn"
    assert (await second.call("GET", "/approvals")).body["payments"] == []


async def test_another_instant_voids_an_approval(asks: Api, second: Api, clock: Clock) -> None:
    payment_id = (await pay(asks)).body["payment_id"]
    assert (await second.call("POST", f"/payments/{payment_id}/approve", {})).status == 200
    moved = await asks.call("PATCH", f"/payments/{payment_id}", {"delay_seconds": 600})
    assert (moved.status, moved.body["approval"]) == (200, {"required": True})
    shown = await look(asks, payment_id)
    assert (shown["waiting_for"], shown["approval"].get("decision")) == ("approval", None)
    told = (await asks.call("GET", f"/payments/{payment_id}/events")).body["events"]
    assert [each["type"] for each in told[-2:]] == [
        "payment.rescheduled",
        "payment.approval_requested",
    ]
    await clock.advance(900)
    assert await drain(settler(asks.node.database)) == 0
    assert (await second.call("POST", f"/payments/{payment_id}/approve", {})).status == 200
    assert await drain(settler(asks.node.database)) == 1
    assert (await prove(asks.node.database, await tenant_number(asks))).findings == []


async def test_events_of_one_millisecond_keep_their_order(
    asks: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    payment_id = (await pay(asks)).body["payment_id"]
    later = clock_store.node_clock.unix_ms() + 1000
    for _ in range(8):
        later += 1
        monkeypatch.setattr(clock_store.NodeClock, "unix_ms", lambda _, at=later: at)
        await asks.call("PATCH", f"/payments/{payment_id}", {"delay_seconds": 600})
    told = (await asks.call("GET", f"/payments/{payment_id}/events?limit=100")).body["events"]
    types = [each["type"] for each in told[-16:]]
    assert types == ["payment.rescheduled", "payment.approval_requested"] * 8


async def test_whoever_moves_a_payment_does_not_approve_it(api: Api, asks: Api) -> None:
    both = replace(api, key=await api.new_key("payments:write", "payments:approve"))
    payment_id = (await pay(asks)).body["payment_id"]
    moved = await both.call("PATCH", f"/payments/{payment_id}", {"delay_seconds": 600})
    assert moved.status == 200
    refused = await both.call("POST", f"/payments/{payment_id}/approve", {})
    assert (refused.status, refused.body["code"]) == (403, "approval_by_requester")


async def test_a_node_that_has_not_heard_of_a_kill_switch_approves_nothing(
    asks: Api, second: Api
) -> None:
    payment_id = (await pay(asks)).body["payment_id"]
    await Halting(asks.node.database, Halts()).kill(await tenant_number(asks), "elsewhere", "cli")
    for verdict in ("approve", "refuse"):
        answer = await second.call("POST", f"/payments/{payment_id}/{verdict}", {})
        assert (answer.status, answer.body["code"]) == (409, "tenant_halted")
    assert (await look(asks, payment_id))["waiting_for"] == "approval"


async def test_a_limited_key_decides_within_its_limits(api: Api, asks: Api) -> None:
    payment_id = (await pay(asks)).body["payment_id"]
    tenants = Tenants(api.node.database)
    for limits, status in (
        (KeyLimits(max_amount=100), 403),
        (KeyLimits(accounts=["bob"]), 403),
        (KeyLimits(accounts=["carol"]), 404),
        (KeyLimits(accounts=["alice"], max_amount=101), 200),
    ):
        key = (await tenants.issue(api.tenant, ["payments:approve"], limits=limits)).key
        answer = await api.call("POST", f"/payments/{payment_id}/approve", {}, key=key)
        assert answer.status == status, limits


async def test_a_standing_order_is_not_approved_by_its_author(
    api: Api, asks: Api, second: Api, clock: Clock
) -> None:
    payment = {"from_account_id": "alice", "to_account_id": "bob", "amount": 500}
    rule = {"every_seconds": 60, "template": {"payment": payment}}
    made = await api.call("POST", "/schedules", rule)
    await clock.advance(61)
    await expand_all(Expander(api.node.database, wiring.occurrences(api.node)))
    await drain(settler(api.node.database))
    (row,) = await book(api, made.body["schedule_id"])
    assert (await look(asks, row["payment_id"]))["status"] == "PENDING"
    own = await api.call("POST", f"/payments/{row['payment_id']}/approve", {})
    assert own.body["code"] == "approval_by_requester"
    assert (await second.call("POST", f"/payments/{row['payment_id']}/approve", {})).status == 200
    await drain(settler(api.node.database))
    assert (await look(asks, row["payment_id"]))["status"] == "COMPLETED"


async def test_what_was_due_before_a_change_is_not_approved_by_the_author_of_that_version(
    api: Api, asks: Api, clock: Clock
) -> None:
    scopes = ("schedules:write", "payments:write", "payments:approve")
    author, other = [replace(api, key=await api.new_key(*scopes)) for _ in range(2)]
    payment = {"from_account_id": "alice", "to_account_id": "bob", "amount": 500}
    rule = {"every_seconds": 60, "template": {"payment": payment}}
    made = (await author.call("POST", "/schedules", rule)).body["schedule_id"]
    await clock.advance(61)
    # Somebody else writes another template while the author's payment is due.
    later = {"every_seconds": 86_400, "template": {"payment": {**payment, "amount": 300}}}
    assert (await other.call("PATCH", f"/schedules/{made}", later)).status == 200
    await expand_all(Expander(api.node.database, wiring.occurrences(api.node)))
    payment_id = (await book(api, made))[0]["payment_id"]
    assert (await look(asks, payment_id))["amount"] == 500
    own = await author.call("POST", f"/payments/{payment_id}/approve", {})
    assert own.body["code"] == "approval_by_requester"
    assert (await other.call("POST", f"/payments/{payment_id}/approve", {})).status == 200


async def test_the_table_itself_refuses_one_person_as_two(asks: Api) -> None:
    payment_id = (await pay(asks)).body["payment_id"]
    with pytest.raises(CheckViolationError):
        await asks.node.database.writer.execute(
            "UPDATE payment_approval SET decision = 'approved', decided_at = clock(),"
            " decided_by = requested_by WHERE payment_id = $1",
            UUID(payment_id),
        )


async def test_a_decision_while_the_clock_is_set_back_is_no_forgery(
    asks: Api, second: Api, clock: Clock
) -> None:
    """By their times the request comes last; by the chain the decision does."""
    database = asks.node.database
    payment_id = (await pay(asks)).body["payment_id"]
    await seal_all(database)
    await clock.set(-300)
    assert (await second.call("POST", f"/payments/{payment_id}/approve", {})).status == 200
    assert await seal_all(database)
    found = await check_state(database, await tenant_number(asks))
    assert [each for each in found if each.subject == payment_id] == []


async def check_state(database: Database, tenant_id: int) -> list[LedgerFinding]:
    async with snapshot(database) as connection:
        where = Range(tenant_id=tenant_id)
        return await proof.check_state(connection, "state_is_as_sealed", where)
