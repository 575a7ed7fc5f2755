"""The reference at /docs in a real Chromium: it opens under its policy, and can be tried out."""

from typing import Any

import pytest
from playwright.async_api import Page, async_playwright, expect

from conftest import Api
from support.plain_browser import PROGRAM

pytestmark = pytest.mark.skipif(
    PROGRAM is None, reason="no chromium here (Debian: apt-get install chromium)"
)
WATCH = """
window.violations = [];
addEventListener("securitypolicyviolation", (event) => {
  window.violations.push(`${event.violatedDirective} ${event.blockedURI}`);
});
"""


async def test_a_job_is_registered_from_the_reference_with_ones_key(api: Api) -> None:
    async with async_playwright() as playwright:
        chromium = await playwright.chromium.launch(
            executable_path=PROGRAM, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        page = await chromium.new_page()
        await page.add_init_script(WATCH)
        await page.goto(f"{api.url}/docs")
        await _sign_in(page, api.key)
        answer = await _try_out(page, "#operations-jobs-create_job")
        assert await page.evaluate("window.violations") == []
        await chromium.close()
    assert '"status": "PENDING"' in answer
    jobs: Any = (await api.call("GET", "/jobs")).body
    assert len(jobs["jobs"]) == 1


async def _sign_in(page: Page, key: str) -> None:
    await page.locator("button.authorize").click()
    await page.get_by_label("auth-bearer-value").fill(key)
    await page.locator(".auth-btn-wrapper button.authorize").first.click()
    await page.locator(".btn-done").first.click()


async def _try_out(page: Page, operation: str) -> str:
    await page.locator(f"{operation} .opblock-summary-control").click()
    await page.locator(f"{operation} .execute").click()
    table = page.locator(f"{operation} .live-responses-table")
    await expect(table.locator("td.response-col_status").last).to_contain_text("201", timeout=30000)
    return await table.inner_text()
