import asyncio
from collections import Counter
from typing import Any

import pytest

from conftest import Answered, Api, eventually
from postdate.account.store import account as account_store
from postdate.account.store.account import key_of
from support.api_ledger import Ledger, open_ledger


@pytest.fixture
async def ledger(api: Api) -> Ledger:
    return await open_ledger(api)


def item(number: int, **changes: Any) -> dict[str, Any]:
    return {
        "idempotency_key": f"item-{number}",
        "from_account_id": "alice",
        "to_account_id": "bob",
        "amount": 10,
        "delay_seconds": 60,
        **changes,
    }


async def batch(ledger: Ledger, items: list[Any]) -> Answered:
    return await ledger.api.call("POST", "/payments/batch", {"payments": items})


async def test_each_item_of_a_batch_has_its_own_outcome(ledger: Ledger) -> None:
    items = [
        item(1),
        item(2, amount=0),
        item(3, to_account_id="nobody"),
        item(4, idempotency_key=None),
        item(5, amonut=5),
        "a payment",
        item(1),
        item(1, amount=20),
        item(6, amount=991),
        item(7),
    ]
    answer = await batch(ledger, items)
    assert answer.status == 200
    outcomes = answer.body["outcomes"]
    assert (answer.body["accepted"], answer.body["refused"]) == (3, 7)
    found = [(one["status"], one.get("problem", {}).get("code")) for one in outcomes]
    assert found == [
        (201, None),
        (422, "invalid_field"),
        (422, "unknown_account"),
        (422, "invalid_field"),
        (422, "unknown_field"),
        (422, "invalid_field"),
        (201, None),
        (422, "idempotency_key_reused"),
        (422, "insufficient_funds"),
        (201, None),
    ]
    assert outcomes[6] == outcomes[0] | {"replayed": True}
    assert outcomes[7]["problem"]["differs"] == ["amount"]
    assert await ledger.held() == 20
    again = (await batch(ledger, items)).body["outcomes"]
    assert [one.get("payment") for one in again] == [one.get("payment") for one in outcomes]
    assert await ledger.held() == 20


async def test_one_key_serves_both_routes(ledger: Ledger) -> None:
    outcome = (await batch(ledger, [item(1)])).body["outcomes"][0]
    single = await ledger.order("item-1", amount=10)
    assert (single.body, single.status) == (outcome["payment"], 201)
    assert single.headers["idempotency-replayed"] == "true"


async def test_a_batch_spends_in_order_over_its_groups(ledger: Ledger) -> None:
    answer = await batch(ledger, [item(n, amount=2) for n in range(1000)])
    statuses = [one["status"] for one in answer.body["outcomes"]]
    assert statuses == [201] * 500 + [422] * 500
    assert await ledger.held() == 1000


@pytest.mark.parametrize(
    ("items", "code"),
    [([], "invalid_field"), ([item(n) for n in range(1001)], "batch_too_large")],
    ids=["empty", "too large"],
)
async def test_a_batch_has_a_size(ledger: Ledger, items: list[Any], code: str) -> None:
    before = await ledger.rows()
    answer = await batch(ledger, items)
    assert (answer.status, answer.body["code"]) == (422, code)
    assert await ledger.rows() == before


async def test_two_hundred_at_once_make_one_payment_per_key(ledger: Ledger) -> None:
    """Half the keys are sent three times, some are refused; nobody sees another's error."""

    async def ask(number: int) -> tuple[int, Answered]:
        wrong = {"to_account_id": "nobody"} if number % 10 == 9 else {}
        return number, await ledger.order(f"many-{number}", amount=1, **wrong)

    numbers = [n for n in range(100) for _ in range(3 if n % 2 else 1)]
    answers = await asyncio.gather(*(ask(n) for n in numbers))
    by_number: dict[int, list[Answered]] = {}
    for number, answer in answers:
        by_number.setdefault(number, []).append(answer)
    for number, found in by_number.items():
        wanted = "unknown_account" if number % 10 == 9 else None
        for answer in found:
            code = answer.body.get("code")
            assert code in {wanted, "idempotency_in_flight"}, (number, answer)
        real = {a.body["payment_id"] for a in found if a.status == 201}
        assert len(real) == (0 if wanted else 1), number
    rows = await ledger.rows()
    assert rows["payment"] == rows["timer"] == 90
    assert await ledger.held() == 90
    again = Counter([(await ledger.order(f"many-{n}", amount=1)).status for n in range(0, 100, 2)])
    assert again == {201: 50}


async def test_a_key_in_flight_is_refused_with_patience(ledger: Ledger) -> None:
    """Hold the payer's row, so that the first request cannot end before the second arrives."""
    database = ledger.api.node.database

    async def stuck() -> int:
        sql = "SELECT count(*) FROM pg_locks WHERE NOT granted"
        if database.sharded:  # the row lies on one of the database nodes, and so does the wait
            sql = f"SELECT sum(result::integer) FROM run_command_on_all_nodes('{sql}')"
        return int(await database.writer.fetchval(sql))

    async with database.write() as connection:
        await account_store.lock(connection, [key_of(ledger.tenant_id, "alice")])
        first = asyncio.create_task(ledger.order("slow"))
        await eventually(stuck)
        second = await ledger.order("slow")
    assert (second.status, second.body["code"]) == (409, "idempotency_in_flight")
    assert second.headers["Retry-After"] == "1"
    assert (await first).status == 201
    assert (await ledger.order("slow")).headers["idempotency-replayed"] == "true"
