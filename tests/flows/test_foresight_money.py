"""Which payments will fail, from the API: stored ones and those that schedules will make."""

from datetime import timedelta
from uuid import UUID

import pytest

from conftest import Api
from postdate.foresight.store import money as store
from postdate.foresight.view.money import MoneyViews
from postdate.foresight.view.rules import RuleBooks
from postdate.recurrence.compiled import CompiledRule
from postdate.words.error import Code, refuse
from support.plain_browser import Browser

pytestmark = pytest.mark.own_database("foresight reads the due work of every tenant")


async def _account(api: Api, name: str, amount: int = 0) -> None:
    assert (await api.call("POST", "/accounts", {"account_id": name})).status == 201
    if amount:
        body, headers = {"amount": amount, "reason": "start"}, {"Idempotency-Key": name}
        made = await api.call("POST", f"/accounts/{name}/adjustments", body, headers=headers)
        assert made.status == 201, made.body


async def test_failing_payments_are_named_with_when_and_why(api: Api) -> None:
    await _account(api, "rent", 0)
    await _account(api, "ada", 250)
    pay = {"from_account_id": "ada", "to_account_id": "rent", "amount": 100}
    made = await api.call(
        "POST", "/schedules", {"every_seconds": 86_400, "template": {"payment": pay}}
    )
    assert made.status == 201, made.body
    held = {**pay, "amount": 50, "delay_seconds": 3600}
    headers = {"Idempotency-Key": "once"}
    assert (await api.call("POST", "/payments/schedule", held, headers=headers)).status == 201
    found = (await api.call("GET", "/foresight/money?account_id=ada")).body
    assert (found["balance"], found["available"], found["completed"]) == (250, 200, 3)
    assert found["end"]["balance"] == 0
    assert found["lowest"]["available"] == 0
    assert found["failing_count"] in {27, 28}
    first = found["failing"][0]
    assert (first["code"], first["available"]) == ("insufficient_funds", 0)
    assert first["schedule_id"] == made.body["schedule_id"]
    assert found["first_short_at"] == first["due_at"] == found["first_failing_at"]
    everything = (await api.call("GET", "/foresight/money")).body
    assert everything["failing_count"] == found["failing_count"]
    assert (await api.call("GET", "/foresight/money?account_id=bob")).status == 404
    assert (await api.call("GET", "/accounts/ada")).body["balance"] == 250
    async with Browser(api) as browser:
        await browser.sign_in()
        page = await browser.get("/foresight?window=month")
        assert "lacks money" in page.text
        assert "27 of" in page.text or "28 of" in page.text or "29 of" in page.text


async def _pay(api: Api, number: int, amount: int = 30) -> str:
    order = {"from_account_id": "ada", "to_account_id": "rent", "amount": amount}
    order |= {"delay_seconds": 600 + number, "funding": "at_execution"}
    headers = {"Idempotency-Key": f"pay-{number}"}
    made = await api.call("POST", "/payments/schedule", order, headers=headers)
    assert made.status == 201, made.body
    return str(made.body["payment_id"])


async def test_remembered_payments_change_as_those_that_are_read_anew(api: Api) -> None:
    await _account(api, "rent")
    await _account(api, "ada", 100)
    ids = [await _pay(api, number) for number in range(5)]
    tenant_id: int = await api.node.database.writer.fetchval(
        "SELECT tenant_id FROM tenant WHERE name = $1", api.tenant
    )
    remembering = MoneyViews(api.node.database, RuleBooks())

    async def failing() -> list[tuple[UUID | None, int]]:
        seen = []
        for views in (remembering, MoneyViews(api.node.database, RuleBooks())):
            found = await views.project(tenant_id)
            assert found is not None
            assert found.completed == 3
            seen.append([(each.payment_id, each.amount) for each in found.failing])
        assert seen[0] == seen[1]
        return seen[0]

    assert await failing() == [(UUID(ids[3]), 30), (UUID(ids[4]), 30)]
    known = remembering._payments.of(tenant_id)
    before = set(known.payments)
    # One is moved to the end, one is cancelled, one is added.
    moved = await api.call("PATCH", f"/payments/{ids[0]}", {"delay_seconds": 5000})
    assert moved.status == 200, moved.body
    assert await failing() == [(UUID(ids[4]), 30), (UUID(ids[0]), 30)]
    assert len(set(known.payments) - before) == 1
    assert (await api.call("DELETE", f"/payments/{ids[1]}/cancel")).status == 200
    assert await failing() == [(UUID(ids[0]), 30)]
    last = await _pay(api, 9000)
    assert await failing() == [(UUID(ids[0]), 30), (UUID(last), 30)]
    assert len(set(known.payments) - before) == 2


async def test_a_short_window_forgets_what_has_ended_and_nothing_later(api: Api) -> None:
    await _account(api, "rent")
    await _account(api, "ada", 100)
    ids = [await _pay(api, number) for number in range(5)]
    tenant_id: int = await api.node.database.writer.fetchval(
        "SELECT tenant_id FROM tenant WHERE name = $1", api.tenant
    )
    views = MoneyViews(api.node.database, RuleBooks())

    async def known(minutes: int) -> int:
        now = await api.node.database.writer.fetchval("SELECT clock()")
        await views.project(tenant_id, now + timedelta(minutes=minutes))
        return len(views._payments.of(tenant_id).payments)

    assert await known(60) == 5
    assert (await api.call("DELETE", f"/payments/{ids[0]}/cancel")).status == 200
    assert await known(1) == 5
    assert await known(60) == 4


async def test_a_payment_of_another_tenant_is_not_read(api: Api) -> None:
    await _account(api, "rent")
    await _account(api, "ada", 100)
    await _pay(api, 1)
    tenant_id: int = await api.node.database.writer.fetchval(
        "SELECT tenant_id FROM tenant WHERE name = $1", api.tenant
    )
    now = await api.node.database.writer.fetchval("SELECT clock()")
    counts = []
    for reader in (tenant_id, tenant_id + 1):
        async with api.node.database.read(reader) as connection:
            found = await store.open_payments(
                connection, tenant_id, now + timedelta(days=1), (100, 100)
            )
        counts.append(len(found.payments))
    assert counts == [1, 0]


async def test_a_schedule_that_takes_too_long_to_follow_is_left_out(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _account(api, "rent")
    await _account(api, "ada", 100)
    pay = {"from_account_id": "ada", "to_account_id": "rent", "amount": 60}
    for rule in ({"every_seconds": 86_400}, {"cron": "0 0 * * *", "max_runs": 9}):
        made = await api.call("POST", "/schedules", {**rule, "template": {"payment": pay}})
        assert made.status == 201, made.body

    def refused(*_: object) -> None:
        raise refuse(Code.INVALID_FIELD, "It takes too many steps.", "rrule")

    monkeypatch.setattr(CompiledRule, "occurrences", refused)
    found = (await api.call("GET", "/foresight/money")).body
    assert (found["left_out"], found["completed"]) == (1, 1)
    async with Browser(api) as browser:
        await browser.sign_in()
        for path in ("/foresight?window=month", "/foresight/money"):
            page = await browser.get(path)
            assert "Not in the figures: 1 schedule whose rule" in page.text
