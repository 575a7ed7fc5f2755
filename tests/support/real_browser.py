"""A real Chromium for the tests of the console; root `conftest.py` makes its fixtures known."""

from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from conftest import Api
from support.plain_browser import PROGRAM

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from playwright.async_api import Browser as Chromium
    from playwright.async_api import Locator, Page

needs_chromium = pytest.mark.skipif(
    PROGRAM is None, reason="no chromium here (Debian: apt-get install chromium)"
)

WATCH = """
window.violations = [];
addEventListener("securitypolicyviolation", (event) => {
  window.violations.push(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`);
});
"""
"""Notes in a page what its policy has refused."""


@pytest.fixture(scope="session")
async def chromium() -> "AsyncIterator[Chromium]":
    """One browser for all modules of a pytest worker: every test has a context of its own."""
    # Imported here: every test run reads this file, and few of them need a browser.
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=PROGRAM, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        yield browser
        await browser.close()


@pytest.fixture
async def page(chromium: "Chromium", api: Api) -> "AsyncIterator[Page]":
    """A tab of somebody who is signed in as the tenant's admin; its policy refuses nothing."""
    context = await chromium.new_context(locale="en-US")
    opened = await context.new_page()
    await opened.add_init_script(WATCH)
    await sign_in(opened, api, api.key)
    yield opened
    assert await opened.evaluate("window.violations ?? []") == []
    await context.close()


async def sign_in(page: "Page", api: Api, key: str) -> None:
    """Take the session without loading a page for it."""
    seen = await page.request.post(
        api.url + "/login", form={"key": key, "next": "/jobs"}, headers={"origin": api.url}
    )
    assert seen.ok


async def make(api: Api, path: str, body: Any) -> Any:
    """Create something by the API."""
    answer = await api.call("POST", path, body, headers={"Idempotency-Key": uuid4().hex})
    assert answer.status in {200, 201}, answer.body
    return answer.body


async def follow(tab: "Page", link: "Locator") -> None:
    """Press a link, and wait for the page behind it."""
    async with tab.expect_navigation(wait_until="domcontentloaded"):
        await link.click()


async def follow_to(tab: "Page", thing: str) -> None:
    """Follow the link to a thing; one that is folded away is unfolded first."""
    link = tab.locator(f'a[href^="{thing}"]')
    if not await link.first.is_visible():
        await tab.locator("details", has=link).first.locator("summary").first.click()
    await follow(tab, link.first)
