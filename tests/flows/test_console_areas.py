"""Approvals and statements under Money, a statement on paper, the pages of documentation."""

import pytest
from playwright.async_api import Page, expect

from conftest import Api
from support.plain_browser import Browser
from support.real_browser import make, needs_chromium

pytestmark = pytest.mark.own_database("approvals and settings of the tenant")


async def _euros(api: Api) -> None:
    for name in ("alice", "bob"):
        await make(api, "/accounts", {"account_id": name, "currency": "EUR"})
    await make(api, "/accounts/alice/adjustments", {"amount": 100_050, "reason": "opening"})


async def _ask(api: Api, amount: int, description: str) -> str:
    order = {"from_account_id": "alice", "to_account_id": "bob", "amount": amount}
    order |= {"delay_seconds": 3600, "description": description}
    return str((await make(api, "/payments/schedule", order))["payment_id"])


async def _approve_above(api: Api, amount: int) -> None:
    assert (
        await api.call("PUT", "/settings/payment.approval_above", {"value": amount})
    ).status == 200
    await api.node.refresh_settings()


async def test_approvals_have_a_page_with_the_count_that_the_tab_says(api: Api) -> None:
    await _euros(api)
    await _approve_above(api, 100)
    asked = [await _ask(api, 12_550 + number, f"bicycle {number}") for number in range(3)]
    listed = (await api.call("GET", "/approvals")).body["payments"]
    assert sorted(one["payment_id"] for one in listed) == sorted(asked)
    async with Browser(api) as browser:
        await browser.sign_in(await api.new_key("admin"))
        seen = (await browser.get("/approvals")).text
        assert 'title="3 payments that wait for a second person"' in seen
        assert "125.52 EUR" in seen
        for payment in asked:
            assert f'href="/payments/{payment}/approve"' in seen
        now = (await browser.get("/")).text
        assert '<a class="tile bad" href="/approvals" id="tile-approvals"><strong>3</strong>' in now
        assert (await browser.confirm(f"/payments/{asked[0]}/approve")).status == 303
        assert asked[0] not in (await browser.get("/approvals")).text
        assert (await browser.get("/approvals?account=alice")).status == 422


async def test_a_limited_key_sees_the_approvals_of_its_accounts_only(api: Api) -> None:
    await _euros(api)
    await _approve_above(api, 100)
    asked = await _ask(api, 500, "own")
    await make(api, "/accounts", {"account_id": "carol"})
    async with Browser(api) as browser:
        for account, is_shown in (("alice", True), ("carol", False)):
            wish = {"scopes": ["payments:read"], "accounts": [account]}
            await browser.sign_in((await make(api, "/keys", wish))["key"])
            assert (asked in (await browser.get("/approvals")).text) is is_shown
        await browser.sign_in(await api.new_key("jobs:read"))
        assert (await browser.get("/approvals")).status == 403


async def test_statements_lead_from_an_account_and_a_period_to_the_statement(api: Api) -> None:
    await _euros(api)
    async with Browser(api) as browser:
        await browser.sign_in()
        seen = (await browser.get("/statements")).text
        assert '<option value="alice">' in seen
        assert 'href="/accounts/alice/statement"' in seen
        chosen = await browser.get("/statements?account=alice&from=2026-01-01T00:00:00")
        assert chosen.status == 303
        where = chosen.headers["location"]
        assert where == "/accounts/alice/statement?from=2026-01-01T00%3A00%3A00"
        assert "1,000.50 EUR" in (await browser.get(where)).text
        assert (await browser.get("/statements?account=nobody")).status == 404


@needs_chromium
async def test_a_statement_on_paper_has_the_entries_and_nothing_to_press(
    page: Page, api: Api
) -> None:
    await _euros(api)
    await page.goto(api.url + "/accounts/alice/statement?text=opening")
    await expect(page.get_by_role("button", name="Print")).to_be_visible()
    paper = page.locator(".paper-only")
    await expect(paper).to_be_hidden()
    await page.emulate_media(media="print")
    for screen in ("header", "footer", "form.filters", "#print", ".state", ".as-code"):
        await expect(page.locator(screen).first).to_be_hidden()
    await expect(paper).to_contain_text("amounts in EUR")
    await expect(paper).to_contain_text("only entries that match “opening”")
    await expect(page.locator("tfoot")).to_contain_text("1,000.50 EUR")
    assert await page.evaluate("getComputedStyle(document.body).backgroundColor") == (
        "rgb(255, 255, 255)"
    )


@needs_chromium
async def test_money_is_walked_by_keys_and_the_back_button(page: Page, api: Api) -> None:
    await page.goto(api.url + "/payments")
    await page.keyboard.press("g")
    await page.keyboard.press("v")
    await page.wait_for_url("**/approvals")
    await page.keyboard.press("g")
    await page.keyboard.press("b")
    await page.wait_for_url("**/statements")
    current = page.locator("nav.tabs [aria-current]")
    await expect(current).to_have_text("Statements")
    await page.go_back()
    await expect(current).to_contain_text("Approvals")
    await page.go_back()
    await expect(current).to_contain_text("Payments")


@needs_chromium
@pytest.mark.parametrize("path", ["/docs/guide", "/docs/guide/guides/payments", "/docs/errors"])
async def test_the_documentation_looks_like_the_console_and_fits_a_phone(
    page: Page, api: Api, path: str
) -> None:
    await page.set_viewport_size({"width": 390, "height": 844})
    await page.goto(api.url + path)
    assert await page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    await page.set_viewport_size({"width": 1440, "height": 900})
    wide = await page.locator("main").evaluate("(main) => main.getBoundingClientRect().width")
    assert 500 < wide < 800  # a line of text that can be read
    accent = "getComputedStyle(document.documentElement).getPropertyValue('--accent')"
    of_docs = await page.evaluate(accent)
    await page.goto(api.url + "/payments")
    assert of_docs == await page.evaluate(accent)


async def test_the_errors_are_written_with_code_not_with_backticks(api: Api) -> None:
    async with api.session.get(api.url + "/docs/errors") as answer:
        seen = (await answer.text()).partition("<main")[2]
    assert "`" not in seen
    assert "<code>detail</code>" in seen
