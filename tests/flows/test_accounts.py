from datetime import datetime
from functools import partial
from typing import Any

import pytest

from conftest import Answered, Api, Clock
from support.api_ledger import Ledger, key, open_ledger
from support.bank import drain, settler


@pytest.fixture
async def ledger(api: Api) -> Ledger:
    return await open_ledger(api)


async def adjust(ledger: Ledger, account_id: str, amount: Any, name: str = "") -> Answered:
    path = f"/accounts/{account_id}/adjustments"
    return await ledger.api.call(
        "POST", path, {"amount": amount, "reason": f"by {amount}"}, headers=key(name)
    )


async def statement(ledger: Ledger, query: str = "") -> dict[str, Any]:
    answer = await ledger.api.call("GET", f"/accounts/alice/entries{query}")
    assert answer.status == 200, answer
    body: dict[str, Any] = answer.body
    return body


async def sum_of_balances(ledger: Ledger) -> int:
    accounts = (await ledger.api.call("GET", "/accounts?limit=100")).body["accounts"]
    return sum(account["balance"] for account in accounts)


async def test_an_account_begins_empty(api: Api) -> None:
    answer = await api.call("POST", "/accounts", {"account_id": "x.y:z@w-1", "note": "hi"})
    assert answer.status == 201
    created_at = answer.body.pop("created_at")
    assert answer.body.pop("updated_at") == created_at
    assert datetime.fromisoformat(created_at).tzinfo is not None
    assert answer.body == {
        "account_id": "x.y:z@w-1",
        "balance": 0,
        "held": 0,
        "available": 0,
        "version": 0,
        "floor": 0,
        "max_amount": None,
        "note": "hi",
    }
    again = await api.call("POST", "/accounts", {"account_id": "x.y:z@w-1"})
    assert (again.status, again.body["code"]) == (409, "account_exists")
    assert (await api.call("GET", "/accounts/x.y:z%40w-1")).body["note"] == "hi"


async def test_an_id_is_assigned_to_an_account_without_one(api: Api) -> None:
    first, second = await api.call("POST", "/accounts"), await api.call("POST", "/accounts", {})
    assert first.body["account_id"].startswith("acc_")
    assert first.body["account_id"] != second.body["account_id"]


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"account_id": ""}, 422, "invalid_field"),
        ({"account_id": "a b"}, 422, "invalid_field"),
        ({"account_id": "a/b"}, 422, "invalid_field"),
        ({"account_id": "a" * 65}, 422, "invalid_field"),
        ({"account_id": "a\n"}, 422, "invalid_field"),
        ({"account_id": "issuer"}, 422, "account_reserved"),
        ({"floor": 1}, 422, "insufficient_funds"),
        ({"floor": None}, 422, "invalid_field"),
        ({"floor": -(2**63)}, 422, "invalid_field"),
        ({"max_amount": 0}, 422, "invalid_field"),
        ({"max_amount": 1_000_001}, 422, "invalid_field"),
        ({"balance": 100}, 422, "unknown_field"),
    ],
)
async def test_a_bad_account_is_refused(
    api: Api, body: dict[str, Any], status: int, code: str
) -> None:
    answer = await api.call("POST", "/accounts", body)
    assert (answer.status, answer.body["code"]) == (status, code)
    assert (await api.call("GET", "/accounts")).body["accounts"] == []


async def test_adjustments_come_from_the_issuer_and_sum_to_zero(ledger: Ledger) -> None:
    answer = await adjust(ledger, "alice", -300, "less")
    assert (answer.status, answer.body["balance"], answer.body["version"]) == (201, 700, 2)
    assert (await adjust(ledger, "bob", 50)).status == 201
    assert (await adjust(ledger, "alice", -300, "less")).body == answer.body
    reused = await adjust(ledger, "alice", -301, "less")
    assert reused.body["differs"] == ["amount", "reason"]
    issuer = await ledger.account("issuer")
    assert (issuer["balance"], issuer["version"], issuer["floor"]) == (-750, 3, None)
    assert await sum_of_balances(ledger) == 0
    entries = (await statement(ledger))["entries"]
    assert [(e["type"], e["amount"], e["balance"], e["reason"]) for e in entries] == [
        ("ADJUSTMENT", -300, 700, "by -300"),
        ("ADJUSTMENT", 1000, 1000, "opening"),
    ]


@pytest.mark.parametrize(
    ("account_id", "amount", "status", "code"),
    [
        ("alice", 0, 422, "invalid_field"),
        ("alice", 1.5, 422, "invalid_field"),
        ("alice", 2**63, 422, "invalid_field"),
        ("alice", "5", 422, "invalid_field"),
        ("alice", -1001, 422, "insufficient_funds"),
        ("issuer", 5, 422, "account_reserved"),
        ("nobody", 5, 404, "not_found"),
    ],
)
async def test_a_bad_adjustment_moves_nothing(
    ledger: Ledger, account_id: str, amount: Any, status: int, code: str
) -> None:
    before = await ledger.rows()
    answer = await adjust(ledger, account_id, amount)
    assert (answer.status, answer.body["code"]) == (status, code)
    after = await ledger.rows()
    assert after | {"idempotency": 0} == before | {"idempotency": 0}
    assert await sum_of_balances(ledger) == 0


async def test_held_money_cannot_be_adjusted_away(ledger: Ledger) -> None:
    await ledger.order(amount=900)
    assert (await adjust(ledger, "alice", -101)).body["code"] == "insufficient_funds"
    assert (await adjust(ledger, "alice", -100)).status == 201


async def test_the_statement_goes_back_page_by_page_and_to_any_instant(
    ledger: Ledger, clock: Clock
) -> None:
    for number in range(1, 5):
        await clock.advance(3600)
        await adjust(ledger, "alice", number)
    first = await statement(ledger, "?limit=2")
    assert (first["balance"], first["version"]) == (1010, 5)
    assert [(e["version"], e["balance"]) for e in first["entries"]] == [(5, 1010), (4, 1006)]
    second = await statement(ledger, f"?limit=3&cursor={first['next_cursor']}")
    assert [e["version"] for e in second["entries"]] == [3, 2, 1]
    assert second["next_cursor"] is None
    at = second["entries"][0]["created_at"]
    then = await statement(ledger, f"?at={at.replace('+', '%2B')}")
    assert (then["balance"], then["version"], len(then["entries"])) == (1003, 3, 3)
    long_ago = await statement(ledger, "?at=2020-01-01T00:00:00Z")
    assert (long_ago["balance"], long_ago["version"], long_ago["entries"]) == (0, 0, [])
    for query, code in (
        ("?at=2020-01-01T00:00:00", "invalid_field"),
        ("?at=yesterday", "invalid_field"),
        ("?cursor=%21", "invalid_cursor"),
        ("?cursor=LTU", "invalid_cursor"),
        ("?limit=101", "invalid_field"),
    ):
        answer = await ledger.api.call("GET", f"/accounts/alice/entries{query}")
        assert (answer.status, answer.body["code"]) == (422, code), query


async def test_limits_can_be_changed(ledger: Ledger) -> None:
    async def patch(body: dict[str, Any], **more: Any) -> Answered:
        return await ledger.api.call("PATCH", "/accounts/alice", body, **more)

    changed = await patch({"floor": 400, "max_amount": 550, "note": "vip"})
    assert (changed.body["floor"], changed.body["max_amount"]) == (400, 550)
    assert (await ledger.order(amount=551)).body["code"] == "amount_above_limit"
    assert (await ledger.order(amount=550)).status == 201
    refused = await ledger.order(amount=51)
    assert (refused.body["code"], refused.body["available"]) == ("insufficient_funds", 50)
    assert (await patch({"floor": 451})).body["code"] == "insufficient_funds"
    high = await patch({"max_amount": 2_000_000})
    assert (high.status, high.body["field"]) == (422, "max_amount")
    kept = await patch({"max_amount": None})
    assert (kept.body["floor"], kept.body["max_amount"], kept.body["note"]) == (400, None, "vip")
    writer = await ledger.api.new_key("payments:write")
    assert (await patch({"floor": -1}, key=writer)).status == 403
    assert (await patch({"floor": -500})).status == 200
    assert (await ledger.order(amount=900)).status == 201
    assert (await patch({"balance": 5})).body["code"] == "unknown_field"


async def test_a_frozen_account_neither_pays_nor_is_paid(ledger: Ledger) -> None:
    frozen = await ledger.api.call("POST", "/accounts/alice/freeze")
    again = await ledger.api.call("POST", "/accounts/alice/freeze")
    assert frozen.body["frozen_at"] == again.body["frozen_at"]
    assert (await ledger.order()).body["code"] == "account_frozen"
    assert (await adjust(ledger, "alice", 5)).status == 201
    thawed = await ledger.api.call("POST", "/accounts/alice/unfreeze")
    assert "frozen_at" not in thawed.body
    assert (await ledger.order()).status == 201


async def test_only_an_empty_account_can_be_closed(ledger: Ledger) -> None:
    async def close(account_id: str) -> Answered:
        return await ledger.api.call("DELETE", f"/accounts/{account_id}")

    await ledger.order(amount=1000)
    refused = await close("alice")
    assert (refused.status, refused.body["code"]) == (409, "account_not_empty")
    assert (refused.body["balance"], refused.body["held"]) == (1000, 1000)
    assert (await close("issuer")).body["code"] == "account_reserved"
    assert (await close("nobody")).status == 404
    closed = await close("bob")
    assert (closed.status, (await close("bob")).body) == (200, closed.body)
    for change in ("freeze", "unfreeze"):
        answer = await ledger.api.call("POST", f"/accounts/carol/{change}")
        assert answer.status == 200
    assert (await ledger.order(to_account_id="bob")).body["code"] == "account_closed"
    assert (await adjust(ledger, "bob", 5)).body["code"] == "account_closed"
    again = await ledger.api.call("POST", "/accounts", {"account_id": "bob"})
    assert again.body["code"] == "account_exists"


async def test_accounts_are_listed_by_id(api: Api) -> None:
    names = [f"n{number:02}" for number in range(25)]
    for name in names:
        await api.call("POST", "/accounts", {"account_id": name})
    first = (await api.call("GET", "/accounts")).body
    second = (await api.call("GET", f"/accounts?cursor={first['next_cursor']}")).body
    found = [a["account_id"] for page in (first, second) for a in page["accounts"]]
    assert (found, len(first["accounts"]), second["next_cursor"]) == (names, 20, None)


async def test_an_account_tells_when_it_last_changed(ledger: Ledger, clock: Clock) -> None:
    async def updated(account_id: str = "alice") -> str:
        answer = await ledger.api.call("GET", f"/accounts/{account_id}")
        return str(answer.body["updated_at"])

    call, seen = ledger.api.call, [await updated()]
    for change in (
        partial(call, "PATCH", "/accounts/alice", {"note": "vip"}),
        partial(call, "POST", "/accounts/alice/freeze"),
        partial(call, "POST", "/accounts/alice/unfreeze"),
        partial(adjust, ledger, "alice", 5),
        partial(ledger.order, amount=5, delay_seconds=10),
    ):
        await clock.advance(1)
        assert (await change()).status in {200, 201}
        seen.append(await updated())
    await clock.advance(11)
    await drain(settler(ledger.api.node.database))
    seen.append(await updated())
    assert seen == sorted(set(seen))
    assert await updated("bob") == seen[-1]
