"""Payments in the console: did money move, filters, and the list as a file."""

import csv
import io
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from conftest import INTERNAL_TOKEN, Api, Clock
from support.plain_browser import Browser


@pytest.fixture
async def browser(api: Api) -> AsyncIterator[Browser]:
    for name in ("alice", "bob", "carol"):
        await api.call("POST", "/accounts", {"account_id": name})
        body = {"amount": 1000, "reason": "opening"}
        headers = {"Idempotency-Key": uuid4().hex}
        await api.call("POST", f"/accounts/{name}/adjustments", body, headers=headers)
    async with Browser(api) as opened:
        await opened.sign_in()
        yield opened


async def pay(api: Api, **fields: Any) -> str:
    order = {
        "from_account_id": "alice",
        "to_account_id": "bob",
        "amount": 70,
        "delay_seconds": 60,
    } | fields
    headers = {"Idempotency-Key": uuid4().hex}
    answer = await api.call("POST", "/payments/schedule", order, headers=headers)
    assert answer.status == 201, answer.body
    return str(answer.body["payment_id"])


async def settle(api: Api, payment_id: str) -> None:
    path = f"{api.url}/api/v1/internal/payments/{payment_id}/execute"
    headers = {"X-Internal-Auth": INTERNAL_TOKEN}
    async with api.session.post(
        path, json={"execution_id": f"by-hand-{payment_id}"}, headers=headers
    ) as answer:
        assert answer.status == 200, await answer.text()


async def test_both_entries_are_shown_with_balances_before_and_after(
    browser: Browser, clock: Clock
) -> None:
    paid = await pay(browser.api)
    waiting = (await browser.get(f"/payments/{paid}")).text
    assert "No: there are no entries. 70 of" in waiting
    await clock.advance(61)
    await settle(browser.api, paid)
    page = (await browser.get(f"/payments/{paid}")).text
    cells = [part.partition("</td>")[0] for part in page.split('class="number')]
    for text in ("1,000", "-70", "930", "+70", "1,070"):
        assert any(text in cell for cell in cells), text
    assert "they sum to 0" in page
    assert f"by-hand-{paid}" in page


async def test_a_refund_and_its_payment_name_each_other(browser: Browser, clock: Clock) -> None:
    paid = await pay(browser.api)
    await clock.advance(61)
    await settle(browser.api, paid)
    headers = {"Idempotency-Key": uuid4().hex}
    path = f"/payments/{paid}/refund"
    refund = (await browser.api.call("POST", path, {"amount": 30}, headers=headers)).body
    assert "<dt>Refunded</dt><dd>30</dd>" in (await browser.get(f"/payments/{paid}")).text
    page = (await browser.get(f"/payments/{refund['payment_id']}")).text
    assert f'<dt>Refund of</dt><dd><a class="id" href="/payments/{paid}">' in page


async def test_a_limited_key_sees_only_its_own_side(browser: Browser, clock: Clock) -> None:
    api = browser.api
    paid = await pay(api)
    await clock.advance(61)
    await settle(api, paid)
    body = {"scopes": ["payments:read"], "accounts": ["bob"]}
    key = (await api.call("POST", "/keys", body)).body["key"]
    await browser.sign_in(key)
    page = (await browser.get(f"/payments/{paid}")).text
    cells = [part.partition("</td>")[0] for part in page.split('class="number')]
    assert any("1,070" in cell for cell in cells)
    # An id of the page may have these digits by chance.
    assert not any("930" in cell for cell in cells[1:])
    assert "your key may not see" in page


async def test_payments_are_filtered_by_amount_time_and_account(browser: Browser) -> None:
    api = browser.api
    small, large = await pay(api, amount=5), await pay(api, amount=500)
    other = await pay(api, amount=500, from_account_id="carol")

    async def found(query: str) -> set[str]:
        text = (await browser.get(f"/payments?{query}")).text
        return {one for one in (small, large, other) if one in text}

    assert await found("least=500") == {large, other}
    assert await found("least=500&account=alice") == {large}
    assert await found("most=5&status=PENDING") == {small}
    assert await found("least=6&most=499") == set()
    tomorrow = f"{datetime.now(UTC) + timedelta(days=1):%Y-%m-%dT%H:%M}"
    assert await found(f"since={tomorrow}") == set()
    assert await found(f"until={tomorrow}") == {small, large, other}
    assert (await browser.get("/payments?since=yesterday")).status == 422
    assert (await browser.get("/payments?least=much")).status == 422


async def test_the_list_comes_as_a_file_with_the_same_filter(browser: Browser) -> None:
    api = browser.api
    for _ in range(3):
        await pay(api, amount=7, description="=SUM(A1)")
    await pay(api, amount=8)
    seen = await browser.get("/payments.csv?most=7")
    assert seen.headers["content-type"].startswith("text/csv")
    assert "attachment" in seen.headers["content-disposition"]
    rows = list(csv.DictReader(io.StringIO(seen.text)))
    assert [row["amount"] for row in rows] == ["7"] * 3
    assert {row["description"] for row in rows} == {"'=SUM(A1)"}
    assert {UUID(row["payment_id"]).version for row in rows} == {7}
    await browser.sign_in(await api.new_key("jobs:read"))
    assert (await browser.get("/payments.csv")).status == 403


async def test_a_long_list_by_amount_goes_on_where_it_ended(browser: Browser) -> None:
    wanted = {await pay(browser.api, amount=1 + number % 2) for number in range(8)}
    found: set[str] = set()
    path = "/payments?least=1"
    while path:
        text = (await browser.get(path)).text
        found |= {one for one in wanted if one in text}
        path = text.partition('rel="next" href="')[2].partition('"')[0].replace("&amp;", "&")
    assert found == wanted


async def test_a_second_person_approves_or_refuses_a_large_payment(browser: Browser) -> None:
    api = browser.api
    await browser.confirm("/settings/payment.approval_above/set", value="100")
    await api.node.refresh_settings()
    one, two = await pay(api, amount=500), await pay(api, amount=400)
    page = (await browser.get(f"/payments/{one}")).text
    assert "a second person must approve it" in page
    assert "a key other than the one that requested it" in page
    assert one in (await browser.get("/decisions")).text
    assert (await browser.confirm(f"/payments/{one}/approve")).status == 403
    await browser.sign_in(await api.new_key("admin"))
    assert (await browser.confirm(f"/payments/{one}/approve", note="seen")).status == 303
    assert "approved" in (await browser.get(f"/payments/{one}")).text
    assert (await browser.confirm(f"/payments/{two}/refuse", note="")).status == 422
    assert (await browser.confirm(f"/payments/{two}/refuse", note="not ours")).status == 303
    assert "CANCELLED" in (await browser.get(f"/payments/{two}")).text
    assert one not in (await browser.get("/decisions")).text


async def test_a_completed_payment_is_refunded_once_for_each_form(
    browser: Browser, clock: Clock
) -> None:
    api, paid = browser.api, await pay(browser.api)
    assert "/refund" not in (await browser.get(f"/payments/{paid}")).text
    await clock.advance(61)
    await settle(api, paid)
    assert f"/payments/{paid}/refund" in (await browser.get(f"/payments/{paid}")).text
    form = (await browser.get(f"/payments/{paid}/refund")).hidden | {"amount": "30"}
    told = []
    for _ in range(2):
        assert (await browser.post(f"/payments/{paid}/refund", form)).status == 303
        told.append((await browser.get(f"/payments/{paid}")).text)
    back = (await api.call("GET", "/payments?account_id=bob&status=PENDING")).body["payments"]
    assert [(one["from_account_id"], one["amount"]) for one in back] == [("bob", 30)]
    said = f"The refund is scheduled as payment {back[0]['payment_id']}."
    assert [said in text for text in told] == [True, True]
    more = await browser.confirm(f"/payments/{paid}/refund", amount="50")
    assert (more.status, "#refund_above_paid" in more.text) == (422, True)
