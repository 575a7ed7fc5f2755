"""Money ahead in the console: all accounts or one, who falls short first, and why."""

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
        assert "200 are to be paid, 50 are missing" in seen
        assert f'href="/payments/{failing}"' in seen
        assert 'href="/accounts/ada"' in seen
        assert 'href="/foresight/money?account=ada"' in seen
        own = (await browser.get("/foresight/money?account=ada&window=day")).text
        assert "Money of ada" in own
        assert "balance now" in own
        fine = (await browser.get("/foresight/money?account=idle")).text
        assert "It does not fall below its floor." in fine
        assert f"/payments/{failing}" not in fine
        soon = (await browser.get("/foresight/money?window=hour")).text
        assert "No account falls below its floor." in soon
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


@needs_chromium
async def test_the_chart_of_all_money_has_its_table_and_fits_a_phone(page: Page, api: Api) -> None:
    failing = await _fill(api)
    await page.set_viewport_size({"width": 390, "height": 844})
    await page.goto(api.url + "/foresight/money?window=day")
    table = page.locator('[data-table="money-1"]')
    await table.get_by_text("As a table").click()
    await expect(table.locator("tbody tr").first.locator("td.number")).to_have_text(["300", "300"])
    assert await page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    await page.locator(f'#short a[href="/payments/{failing}"]').click()
    await expect(page.locator("h1")).to_contain_text(failing)
