from datetime import UTC, datetime
from typing import Any

import pytest

from conftest import Api, Clock
from support.api_ledger import Ledger, open_ledger
from support.bank import drain, settler


@pytest.fixture
async def ledger(api: Api) -> Ledger:
    return await open_ledger(api)


async def listed(ledger: Ledger, query: str, limit: int = 3) -> list[dict[str, Any]]:
    """Walk all pages of a list."""
    found: list[dict[str, Any]] = []
    cursor = ""
    while True:
        path = f"/payments?limit={limit}{query}{cursor}"
        answer = await ledger.api.call("GET", path)
        assert answer.status == 200, answer
        assert len(answer.body["payments"]) <= limit
        found += answer.body["payments"]
        if answer.body["next_cursor"] is None:
            return found
        cursor = f"&cursor={answer.body['next_cursor']}"


async def test_payments_are_listed_newest_first_by_account_and_status(
    ledger: Ledger, clock: Clock
) -> None:
    for account_id in ("bob", "carol"):
        path = f"/accounts/{account_id}/adjustments"
        await ledger.api.call(
            "POST",
            path,
            {"amount": 500, "reason": "some"},
            headers={"Idempotency-Key": account_id},
        )
    pairs = [("alice", "bob"), ("bob", "carol"), ("carol", "alice"), ("alice", "carol")] * 2
    made = []
    for payer, payee in pairs:
        answer = await ledger.order(from_account_id=payer, to_account_id=payee, amount=10)
        made.append(answer.body["payment_id"])
    cancelled = made[3]
    await ledger.api.call("DELETE", f"/payments/{cancelled}/cancel")
    await clock.advance(61)
    poor = await ledger.order(
        from_account_id="bob", to_account_id="alice", amount=600, delay_seconds=1,
        funding="at_execution",
    )  # fmt: skip
    await clock.advance(2)
    await drain(settler(ledger.api.node.database))
    late = (await ledger.order(amount=5)).body["payment_id"]
    newest = [late, poor.body["payment_id"], *sorted(made, reverse=True)]

    def ids(found: list[dict[str, Any]]) -> list[str]:
        return [payment["payment_id"] for payment in found]

    assert ids(await listed(ledger, "")) == sorted(newest, reverse=True)
    of_bob = [
        p for p in await listed(ledger, "") if "bob" in (p["from_account_id"], p["to_account_id"])
    ]
    assert await listed(ledger, "&account_id=bob", 2) == of_bob
    assert len(of_bob) == 6
    assert ids(await listed(ledger, "&status=PENDING")) == [late]
    assert ids(await listed(ledger, "&status=CANCELLED")) == [cancelled]
    failed = await listed(ledger, "&status=FAILED")
    assert ids(failed) == [poor.body["payment_id"]]
    assert failed[0]["error_code"] == "insufficient_funds"
    completed = await listed(ledger, "&status=COMPLETED")
    assert set(ids(completed)) == set(made) - {cancelled}
    assert all(p["lateness_ms"] >= 0 and p["executed_at"] for p in completed)
    assert ids(await listed(ledger, "&status=CANCELLED&account_id=alice")) == [cancelled]
    assert await listed(ledger, "&status=FAILED&account_id=carol") == []
    assert await listed(ledger, "&status=EXECUTING") == []


async def test_a_bad_list_is_refused(ledger: Ledger) -> None:
    for query, code in (
        ("status=DONE", "invalid_field"),
        ("limit=0", "invalid_field"),
        ("limit=101", "invalid_field"),
        ("cursor=abc", "invalid_cursor"),
        ("account_id=a%20b", "invalid_field"),
        ("state=PENDING", "unknown_field"),
    ):
        answer = await ledger.api.call("GET", f"/payments?{query}")
        assert (answer.status, answer.body["code"]) == (422, code), query


@pytest.mark.parametrize("path", ["", "/events", "/executions"])
async def test_what_is_not_there_is_not_found(ledger: Ledger, path: str) -> None:
    for payment_id in ("nonsense", "00000000-0000-7000-8000-000000000000"):
        answer = await ledger.api.call("GET", f"/payments/{payment_id}{path}")
        assert (answer.status, answer.body["code"]) == (404, "not_found")


async def test_a_payment_keeps_what_it_wishes_when_it_breaks(ledger: Ledger) -> None:
    wished = (await ledger.order(amount=5, on_broken="release")).body["payment_id"]
    silent = (await ledger.order(amount=5)).body["payment_id"]
    found = {each["payment_id"]: each for each in await listed(ledger, "&broken=false")}
    assert found[wished]["on_broken"] == "release"
    assert "on_broken" not in found[silent]
    assert await listed(ledger, "&broken=true") == []
    assert (await ledger.order(amount=5, on_broken="forget")).status == 422


async def test_payments_are_listed_by_the_time_of_their_acceptance(ledger: Ledger) -> None:
    ids = [(await ledger.order(amount=10)).body["payment_id"] for _ in range(4)]
    accepted = [int(each[:8] + each[9:13], 16) for each in ids]
    last = datetime.fromtimestamp(accepted[-1] / 1000, UTC).isoformat(timespec="milliseconds")
    boundary = last.replace("+00:00", "Z")
    after = [each["payment_id"] for each in await listed(ledger, f"&from_time={boundary}")]
    before = [each["payment_id"] for each in await listed(ledger, f"&to_time={boundary}")]
    assert [*after, *before] == ids[::-1]
    assert ids[-1] in after
    assert ids[0] in before
    for wrong in ("from_time=yesterday", "to_time=2031-01-01T00:00", "from_time=1066-01-01T00:00Z"):
        answer = await ledger.api.call("GET", f"/payments?{wrong}")
        assert (answer.status, answer.body["field"]) == (422, wrong.partition("=")[0])
