"""The rules of a tenant at hand: read once, and again only where something has changed."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from conftest import Api
from postdate.core.ids import bucket_of
from postdate.database.connection.error import DatabaseError
from postdate.foresight.view import warming
from postdate.foresight.view.money import MoneyViews
from postdate.foresight.view.rules import WAYS, RuleBook, RuleBooks, count_schedules
from postdate.foresight.view.warming import MoneyWarming, RuleWarming

pytestmark = pytest.mark.own_database("its loops work for every tenant")

JOB: dict[str, Any] = {"job": {"destination": {"type": "worker"}}}
PAYMENT = {"payment": {"from_account_id": "ada", "to_account_id": "bob", "amount": 1}}


async def _calendar(api: Api, holidays: list[str], weekend: Sequence[int] = (6, 7)) -> None:
    body = {"name": "bank", "holidays": holidays, "weekend": list(weekend)}
    assert (await api.call("POST", "/calendars", body)).status == 201


async def _make(api: Api, number: int) -> str:
    for name in ("ada", "bob"):
        await api.call("POST", "/accounts", {"account_id": name})
    rule = {"cron": f"{number} 3 * * *", "timezone": "Europe/Berlin", "calendar": "bank"}
    template = PAYMENT if number % 2 else JOB
    answer = await api.call("POST", "/schedules", {**rule, "template": template})
    assert answer.status == 201, answer.body
    return str(answer.body["schedule_id"])


def _key(name: str) -> dict[str, str]:
    return {"Idempotency-Key": name}


async def _tenant_id(api: Api) -> int:
    found: int = await api.node.database.writer.fetchval(
        "SELECT tenant_id FROM tenant WHERE name = $1", api.tenant
    )
    return found


async def _book(api: Api, books: RuleBooks) -> RuleBook:
    tenant_id = await _tenant_id(api)
    async with api.node.database.read(tenant_id) as connection:
        return await books.get(connection, tenant_id)


async def _counts(api: Api, book: RuleBook) -> Any:
    now = await api.node.database.writer.fetchval("SELECT date_trunc('minute', clock())")
    begin = now + timedelta(minutes=2)
    return count_schedules(book, "total", begin, begin + timedelta(days=200))


async def test_only_what_has_changed_is_read_and_counted_again(api: Api) -> None:
    await _calendar(api, ["2027-01-01"])
    ids = [await _make(api, number) for number in range(8)]
    books = RuleBooks()
    book = await _book(api, books)
    before = await _counts(api, book)
    assert await _book(api, books) is book
    ids.append(await _make(api, 8))
    await api.call("POST", f"/schedules/{ids[0]}/pause", {"note": "no"})
    await api.call("PATCH", f"/schedules/{ids[1]}", {"cron": "5 */4 * * *"})
    changed = await _book(api, books)
    kept = {at for at, part in changed.parts.items() if book.parts.get(at) is part}
    assert kept == book.parts.keys() - {bucket_of(UUID(ids[at])) for at in (0, 1, 8)}
    assert len(changed.planned) == 8
    after = await _counts(api, changed)
    assert after == await _counts(api, await _book(api, RuleBooks()))
    assert after != before


async def test_what_begins_within_a_second_is_counted_and_not_left_out(api: Api) -> None:
    now = await api.node.database.writer.fetchval("SELECT date_trunc('minute', clock())")
    start = (now - timedelta(seconds=719.563)).isoformat()
    body = {"every_seconds": 30, "start_at": start, "template": JOB}
    assert (await api.call("POST", "/schedules", body)).status == 201
    book, begin = await _book(api, RuleBooks()), now + timedelta(minutes=2)
    counted = count_schedules(book, "total", begin, begin + timedelta(days=30))
    assert counted.left_out == 0
    [minutes] = counted.counts.values()
    assert set(minutes) == {2}


async def test_a_changed_calendar_is_seen(api: Api) -> None:
    await _calendar(api, [])
    await _make(api, 1)
    books = RuleBooks()
    before = await _counts(api, await _book(api, books))
    await _calendar(api, [], [1, 2, 3, 4, 5, 6])
    after = await _counts(api, await _book(api, books))
    assert after == await _counts(api, await _book(api, RuleBooks()))
    assert after != before


async def test_a_tenant_whose_rules_cannot_be_read_keeps_no_other_waiting(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _calendar(api, [])
    await _make(api, 1)
    tenant_id = await _tenant_id(api)
    books = RuleBooks()
    warmed = RuleWarming(api.node.database, books)
    monkeypatch.setattr(warmed, "_tenants", [-1, tenant_id])
    monkeypatch.setattr(warmed, "_list_at", float("inf"))
    get = books.get

    async def refusing(connection: Any, wanted: int) -> RuleBook:
        if wanted == -1:
            raise DatabaseError("it does not answer")
        return await get(connection, wanted)

    monkeypatch.setattr(books, "get", refusing)
    await warmed.run_once()
    assert tenant_id in books._books


async def test_rules_of_large_tenants_are_read_before_anybody_asks(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _calendar(api, [])
    await _make(api, 1)
    monkeypatch.setattr(warming, "MIN_SCHEDULES", 1)
    books = RuleBooks()
    await RuleWarming(api.node.database, books).run_once()
    [warm] = [book for tenant, book in books._books.items() if tenant == await _tenant_id(api)]
    assert await _book(api, books) is warm
    assert set(warm._sums) == set(WAYS)


async def test_payments_of_large_tenants_are_read_before_anybody_asks(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _calendar(api, [])
    await _make(api, 1)
    await api.call(
        "POST", "/accounts/ada/adjustments", {"amount": 9, "reason": "x"}, headers=_key("a")
    )
    body = {"from_account_id": "ada", "to_account_id": "bob", "amount": 1, "delay_seconds": 99}
    assert (await api.call("POST", "/payments/schedule", body, headers=_key("b"))).status == 201
    monkeypatch.setattr(warming, "MIN_SCHEDULES", 1)
    money = MoneyViews(api.node.database, RuleBooks())
    await MoneyWarming(api.node.database, money).run_once()
    assert len(money._payments.of(await _tenant_id(api)).payments) == 1
