"""Refunds: money goes back once, and never more of it than was paid."""

import asyncio
from typing import Any
from uuid import UUID

import pytest

from conftest import Answered, Api, Clock
from postdate.core.identity import Identity, Scope
from postdate.database.connection.error import TransientError
from postdate.ledger.prove import prove
from postdate.payment.accept.intake import PaymentIntake
from postdate.payment.change.refund import RefundRequest, Refunds
from postdate.payment.store import payment as payment_store
from postdate.tenant.change.tenant import KeyLimits, Tenants
from support.api_ledger import Ledger, key, open_ledger
from support.bank import drain, settings, settler


@pytest.fixture
async def ledger(api: Api) -> Ledger:
    return await open_ledger(api)


async def paid(ledger: Ledger, clock: Clock, amount: int = 100) -> str:
    """Pay bob, and give the payment's id."""
    made: str = (await ledger.order(amount=amount, delay_seconds=1)).body["payment_id"]
    await settle(ledger, clock)
    return made


async def settle(ledger: Ledger, clock: Clock) -> None:
    await clock.advance(2)
    await drain(settler(ledger.api.node.database))


async def refund(ledger: Ledger, payment: str, name: str = "", **body: Any) -> Answered:
    headers = key(name)
    caller = {"key": body.pop("by")} if "by" in body else {}
    path = f"/payments/{payment}/refund"
    return await ledger.api.call("POST", path, body, headers=headers, **caller)


async def shown(ledger: Ledger, payment: str) -> dict[str, Any]:
    view: dict[str, Any] = (await ledger.api.call("GET", f"/payments/{payment}")).body
    return view


async def assert_clean(ledger: Ledger) -> None:
    assert (await prove(ledger.api.node.database, ledger.tenant_id)).findings == []


async def test_a_refund_is_a_payment_back_to_the_payer(ledger: Ledger, clock: Clock) -> None:
    payment = await paid(ledger, clock)
    answer = await refund(ledger, payment, description="not delivered")
    assert (answer.status, answer.body["status"]) == (201, "PENDING"), answer
    assert await ledger.held("bob") == 100
    back = await shown(ledger, answer.body["payment_id"])
    assert (back["from_account_id"], back["to_account_id"], back["amount"]) == ("bob", "alice", 100)
    assert (back["refund_of"], back["description"]) == (payment, "not delivered")
    assert (await shown(ledger, payment))["refunded"] == 100
    await settle(ledger, clock)
    assert (await shown(ledger, answer.body["payment_id"]))["status"] == "COMPLETED"
    assert (await ledger.account("alice"))["balance"] == 1000
    of_refund = await refund(ledger, answer.body["payment_id"])
    assert (of_refund.status, of_refund.body["code"]) == (409, "payment_not_refundable")
    await assert_clean(ledger)


async def test_a_repetition_refunds_once_and_a_changed_one_is_refused(
    ledger: Ledger, clock: Clock
) -> None:
    payment = await paid(ledger, clock)
    first = await refund(ledger, payment, "again", amount=40)
    again = await refund(ledger, payment, "again", amount=40)
    assert (again.status, again.body) == (201, first.body)
    assert dict(again.headers)["idempotency-replayed"] == "true"
    other = await refund(ledger, payment, "again", amount=41)
    assert (other.status, other.body["differs"]) == (422, ["amount"])
    as_payment = await ledger.order(
        "again", from_account_id="bob", to_account_id="alice", amount=40, delay_seconds=1
    )
    assert (as_payment.status, as_payment.body["differs"]) == (422, ["refund_of"])
    assert await ledger.held("bob") == 40
    bare = await ledger.api.call("POST", f"/payments/{payment}/refund", {})
    assert (bare.status, bare.body["code"]) == (400, "idempotency_key_missing")


async def test_a_refund_that_is_too_large_is_refused_in_the_currency_s_units(
    ledger: Ledger, clock: Clock
) -> None:
    for name in ("eva", "finn"):
        await ledger.api.call("POST", "/accounts", {"account_id": name, "currency": "EUR"})
    opening = {"amount": 1000, "reason": "opening"}
    await ledger.api.call("POST", "/accounts/eva/adjustments", opening, headers=key())
    made = await ledger.order(
        from_account_id="eva", to_account_id="finn", amount=1000, delay_seconds=1
    )
    await settle(ledger, clock)
    much = await refund(ledger, made.body["payment_id"], amount=1001)
    assert (much.body["code"], much.body["refundable"]) == ("refund_above_paid", 1000)
    assert much.body["detail"] == "10.00 EUR of the 10.00 EUR that were paid can still be refunded."


async def test_refunds_never_exceed_what_was_paid_and_failed_ones_give_back(
    ledger: Ledger, clock: Clock
) -> None:
    payment = await paid(ledger, clock)
    part = (await refund(ledger, payment, amount=70)).body["payment_id"]
    much = await refund(ledger, payment, "much", amount=31)
    assert (much.status, much.body["code"]) == (422, "refund_above_paid")
    assert (much.body["refundable"], much.body["field"]) == (30, "amount")
    whole = await refund(ledger, payment)
    assert (whole.status, whole.body["refundable"]) == (422, 30)
    assert (await ledger.api.call("DELETE", f"/payments/{part}/cancel")).status == 200
    assert "refunded" not in await shown(ledger, payment)
    assert (await refund(ledger, payment, "much", amount=31)).body["refundable"] == 30
    assert (await refund(ledger, payment)).status == 201
    assert (await refund(ledger, payment, amount=1)).body["refundable"] == 0


async def test_only_what_was_paid_can_be_refunded(ledger: Ledger, clock: Clock) -> None:
    payment = (await ledger.order()).body["payment_id"]
    early = await refund(ledger, payment, "early")
    assert (early.status, early.body["payment_status"]) == (409, "PENDING")
    assert (await ledger.api.call("DELETE", f"/payments/{payment}/cancel")).status == 200
    assert (await refund(ledger, payment)).body["payment_status"] == "CANCELLED"
    assert (await refund(ledger, "0198c0de-5a4e-7abc-8def-0123456789ab")).status == 404
    spent = await paid(ledger, clock)
    on = await ledger.order(from_account_id="bob", to_account_id="carol", delay_seconds=1)
    assert on.status == 201
    assert (await refund(ledger, spent)).body["code"] == "insufficient_funds"


async def test_a_limited_key_refunds_what_its_accounts_were_paid(
    ledger: Ledger, clock: Clock
) -> None:
    payment = await paid(ledger, clock)
    tenants = Tenants(ledger.api.node.database)

    async def issued(account: str, most: int | None = None) -> str:
        limits = KeyLimits(accounts=[account], max_amount=most)
        return (await tenants.issue(ledger.api.tenant, ["payments:write"], limits=limits)).key

    assert (await refund(ledger, payment, by=await issued("carol"))).status == 404
    assert (await refund(ledger, payment, by=await issued("alice"))).status == 403
    assert (await refund(ledger, payment, by=await issued("bob", 99))).status == 403
    assert (await refund(ledger, payment, by=await issued("bob", 100))).status == 201


async def test_a_refund_above_the_threshold_waits_for_a_second_person(
    ledger: Ledger, clock: Clock
) -> None:
    payment = await paid(ledger, clock)
    path = "/settings/payment.approval_above"
    assert (await ledger.api.call("PUT", path, {"value": 50})).status == 200
    await ledger.api.node.refresh_settings()
    answer = await refund(ledger, payment)
    assert answer.body["approval"] == {"required": True}
    assert (await shown(ledger, payment))["refunded"] == 100


async def test_twenty_part_refunds_at_once_return_what_was_paid(
    ledger: Ledger, clock: Clock
) -> None:
    payment = await paid(ledger, clock)
    await ledger.order(amount=500, delay_seconds=1)
    await settle(ledger, clock)
    # Two nodes, each with its own queue of requests: only the database can keep them apart.
    actor = Identity(
        tenant_id=ledger.tenant_id, tenant="t", key_id="k", scopes=frozenset({Scope.ADMIN})
    )
    database = ledger.api.node.database
    nodes = [Refunds(database, PaymentIntake(database, settings())) for _ in range(2)]
    answers = await asyncio.gather(
        *(
            nodes[number % 2].refund(
                actor, RefundRequest(payment_id=UUID(payment), key=f"part-{number}", amount=15)
            )
            for number in range(20)
        )
    )
    accepted = [answer for answer in answers if hasattr(answer, "body")]
    assert len(accepted) == 6
    assert (await shown(ledger, payment))["refunded"] == 90
    await settle(ledger, clock)
    assert (await ledger.account("alice"))["balance"] == 1000 - 600 + 90
    await assert_clean(ledger)


async def test_a_refund_that_breaks_off_before_its_commit_returns_nothing(
    ledger: Ledger, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    payment = await paid(ledger, clock)
    write = payment_store.accept

    async def broken(*arguments: Any) -> None:
        await write(*arguments)
        raise TransientError("the connection is lost")

    with monkeypatch.context() as patch:
        patch.setattr(payment_store, "accept", broken)
        assert (await refund(ledger, payment, "lost")).status >= 500
    assert "refunded" not in await shown(ledger, payment)
    assert (await refund(ledger, payment, "lost")).status == 201
    assert (await shown(ledger, payment))["refunded"] == 100
    await assert_clean(ledger)


async def cancelled_part(ledger: Ledger, payment: str) -> tuple[str, str]:
    """Refund 70, later, and cancel that by a change set; give the refund and the set's path."""
    part = (await refund(ledger, payment, amount=70)).body["payment_id"]
    later = await ledger.api.call("PATCH", f"/payments/{part}", {"delay_seconds": 600})
    assert later.status == 200
    cancel = {"type": "cancel_payments", "filter": {"from_account_id": "bob"}}
    draft = (await ledger.api.call("POST", "/change-sets", {"changes": [cancel]})).body
    path = f"/change-sets/{draft['change_set_id']}"
    assert (await ledger.api.call("POST", f"{path}/apply", {})).body["status"] == "APPLIED"
    assert (await shown(ledger, part))["status"] == "CANCELLED"
    return part, path


async def test_a_refund_that_an_undo_brings_back_is_a_refund_still(
    ledger: Ledger, clock: Clock
) -> None:
    payment = await paid(ledger, clock)
    _, path = await cancelled_part(ledger, payment)
    assert (await ledger.api.call("POST", f"{path}/undo", {})).body["status"] == "UNDONE"
    [item] = (await ledger.api.call("GET", f"{path}/items")).body["items"]
    assert (await shown(ledger, item["restored_as"]))["refund_of"] == payment
    assert (await refund(ledger, payment, amount=31)).body["refundable"] == 30
    await assert_clean(ledger)


async def test_an_undo_brings_back_no_refund_of_more_than_was_paid(
    ledger: Ledger, clock: Clock
) -> None:
    payment = await paid(ledger, clock)
    part, path = await cancelled_part(ledger, payment)
    assert (await refund(ledger, payment)).status == 201
    undone = (await ledger.api.call("POST", f"{path}/undo", {})).body
    assert undone["steps"][0]["left"] == [f"payment {part}: refund_above_paid"]
    await settle(ledger, clock)
    assert (await ledger.account("alice"))["balance"] == 1000
    await assert_clean(ledger)
