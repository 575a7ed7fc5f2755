"""Money ahead in the console: all accounts or one, who falls short first, and why."""

from datetime import datetime

import pytest
from playwright.async_api import Page, expect

from conftest import Api
from support.page_text import has_word
from support.plain_browser import Browser
from support.real_browser import make, needs_chromium

pytestmark = pytest.mark.own_database("foresight reads the due work of every tenant")

expect.set_options(timeout=30_000)


async def _fill(api: Api) -> str:
    """Let `ada` have 250 of the 300 that she is to pay; return the payment that fails."""
    for name in ("ada", "rent", "idle"):
        await make(api, "/accounts", {"account_id": name})
    for name, amount in (("ada", 250), ("idle", 50)):
        await make(api, f"/accounts/{name}/adjustments", {"amount": amount, "reason": "start"})
    pay = {"from_account_id": "ada", "to_account_id": "rent", "funding": "at_execution"}
    await make(api, "/payments/schedule", {**pay, "amount": 100, "delay_seconds": 3600})
    later = {**pay, "amount": 200, "delay_seconds": 7200}
    return str((await make(api, "/payments/schedule", later))["payment_id"])


async def test_who_falls_short_is_named_with_the_payment_and_how_much_is_missing(
    api: Api,
) -> None:
    failing = await _fill(api)
    async with Browser(api) as browser:
        await browser.sign_in()
        seen = (await browser.get("/foresight/money")).text
        for part in ("in 3 accounts now", "<strong>300</strong>", "<strong>1</strong> of 2"):
            assert part in seen, part
        assert "Pay in <strong>50</strong> by" in seen
        assert 'into <a href="/foresight/money?account=ada">ada</a>' in seen
        assert "lacks money" in seen
        assert f'href="/payments/{failing}"' in seen
        assert 'href="/foresight/money?account=ada"' in seen
        own = (await browser.get("/foresight/money?account=ada&window=day")).text
        assert "Money of ada" in own
        assert "balance now" in own
        assert "Pay in <strong>50</strong> by" in own
        assert 'href="/accounts/ada"' in own
        fine = (await browser.get("/foresight/money?account=idle")).text
        assert "It does not fall below its floor, and no payment fails." in fine
        assert f"/payments/{failing}" not in fine
        soon = (await browser.get("/foresight/money?window=hour")).text
        assert "No account falls below its floor, and no payment fails." in soon
        assert (await browser.get("/foresight/money?account=nobody")).status == 404
        for path in ("/foresight?window=week", "/accounts/ada"):
            assert "/foresight/money" in (await browser.get(path)).text


async def test_without_accounts_or_rights_the_page_says_so(api: Api) -> None:
    async with Browser(api) as browser:
        await browser.sign_in()
        seen = (await browser.get("/foresight/money")).text
        assert "There is no account yet" in seen
        assert 'href="/new/account"' in seen
        await browser.sign_in(await api.new_key("jobs:read"))
        assert (await browser.get("/foresight/money")).status == 403
        await make(api, "/accounts", {"account_id": "ada"})
        wish = {"scopes": ["payments:read"], "accounts": ["ada"]}
        await browser.sign_in((await make(api, "/keys", wish))["key"])
        seen = (await browser.get("/foresight/money")).text
        assert not has_word(seen.partition("<main")[2], "ada")


async def _euros(api: Api) -> None:
    """Let two accounts lack 14,000.00 EUR and 100.00 EUR within a month, in three payments."""
    for name in ("payroll", "fees", "ann"):
        await make(api, "/accounts", {"account_id": name, "currency": "EUR"})
    await make(api, "/accounts/payroll/adjustments", {"amount": 600_050, "reason": "start"})
    for payer, days, amount in (("payroll", 2, 500_000), ("payroll", 3, 500_050)):
        await _pay(api, payer, amount, days)
    await _pay(api, "payroll", 1_000_000, 9)
    await _pay(api, "fees", 10_000, 5)


async def _pay(api: Api, payer: str, amount: int, days: int) -> None:
    order = {"from_account_id": payer, "to_account_id": "ann", "amount": amount}
    order |= {"delay_seconds": 86_400 * days, "funding": "at_execution"}
    await make(api, "/payments/schedule", order)


async def test_the_headline_is_all_that_is_missing_in_units_and_by_the_first_shortfall(
    api: Api,
) -> None:
    await _euros(api)
    told = (await api.call("GET", "/foresight/money")).body
    (wanted,) = told["pay_in"]
    assert (wanted["currency"], wanted["amount"], wanted["accounts"]) == ("EUR", 1_410_000, 2)
    assert wanted["by"] == told["short"][0]["first_short_at"]
    assert [(each["account_id"], each["missing"]) for each in told["short"]] == [
        ("payroll", 1_400_000),
        ("fees", 10_000),
    ]
    assert [(one["account_id"], one["count"], one["amount"]) for one in told["causes"]] == [
        ("payroll", 2, 1_500_050),
        ("fees", 1, 10_000),
    ]
    by = datetime.fromisoformat(wanted["by"])
    async with Browser(api) as browser:
        await browser.sign_in()
        seen = (await browser.get("/foresight/money")).text
        assert "Pay in <strong>14,100.00 EUR</strong> by" in seen
        assert f'<strong class="weekday">{by:%A %H:%M}</strong>' in seen
        assert "into 2 accounts" in seen
        own = (await browser.get("/foresight/money?account=payroll")).text
        assert "Pay in <strong>14,000.00 EUR</strong> by" in own


@needs_chromium
async def test_what_is_paid_in_by_the_headline_lets_nothing_fail(page: Page, api: Api) -> None:
    await _euros(api)
    await make(api, "/accounts/payroll/adjustments", {"amount": 1_400_000, "reason": "as told"})
    await page.goto(api.url + "/foresight/money")
    await expect(page.locator(".headline")).to_contain_text("Pay in 100.00 EUR by")
    await make(api, "/accounts/fees/adjustments", {"amount": 10_000, "reason": "as told"})
    await page.reload()
    await expect(page.locator(".headline")).to_have_count(0)
    await expect(page.locator(".why")).to_contain_text("4 payments become due, and all are covered")


@needs_chromium
async def test_the_curve_of_an_account_is_past_and_future_in_units(page: Page, api: Api) -> None:
    await _euros(api)
    await page.goto(api.url + "/foresight/money?account=payroll&window=week")
    table = page.locator('[data-table="money-1"]')
    await table.get_by_text("As a table").click()
    head = ["UTC", "Balance ahead", "Available ahead", "Balance until now", "Floor", "Falls short"]
    await expect(table.locator("th")).to_have_text(head)
    rows = table.locator("tbody tr")
    short = rows.filter(has_not_text="\N{EN DASH}")
    await expect(short).to_have_count(0)
    first = rows.last.locator("td.number")
    await expect(first).to_have_text(
        ["\N{EN DASH}", "\N{EN DASH}", "6,000.50", "0.00", "\N{EN DASH}"]
    )
    lacking = rows.filter(has=page.locator("td:last-child", has_text="1,000.50"))
    await expect(lacking).to_have_count(1)


@needs_chromium
async def test_the_chart_of_all_money_has_its_table_and_fits_a_phone(page: Page, api: Api) -> None:
    failing = await _fill(api)
    await page.set_viewport_size({"width": 390, "height": 844})
    await page.goto(api.url + "/foresight/money?window=day")
    table = page.locator('[data-table="money-1"]')
    await table.get_by_text("As a table").click()
    await expect(table.locator("tbody tr").first.locator("td.number")).to_have_text(
        ["300", "300", "\N{EN DASH}"]
    )
    assert await page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    await page.get_by_text("1 payment that fails: ada lacks money").click()
    await page.locator(f'.payments-of a[href="/payments/{failing}"]').click()
    await expect(page.locator("h1")).to_contain_text(failing)
