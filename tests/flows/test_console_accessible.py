"""Pages of a tenant that has been lived in fit, and axe finds nothing above minor on them.

All pages in all looks are photographed and judged by `test_console_pictures.py`.
"""

from typing import Literal

import pytest
from playwright.async_api import Browser as Chromium
from playwright.async_api import Page

from conftest import Api, Clock
from flows.test_console_numbers import live
from support.accessibility import violations
from support.real_browser import needs_chromium, sign_in

pytestmark = [
    needs_chromium,
    pytest.mark.own_database("the overview reads the work of every tenant"),
]

PAGES = (
    "/",
    "/decisions",
    "/jobs",
    "/schedules",
    "/lanes",
    "/destinations",
    "/dead-letters",
    "/payments",
    "/accounts",
    "/accounts/eur-main",
    "/accounts/eur-main/statement",
    "/approvals",
    "/statements",
    "/foresight",
    "/foresight/money",
    "/foresight/money?account=yen-main&window=week",
    "/change-sets",
    "/events",
    "/settings",
    "/new/payment",
    "/halts/kill",
    "/docs/guide/guides/payments",
    "/docs/errors",
)


async def test_now_is_one_screen(page: Page, api: Api, clock: Clock) -> None:
    """What is wrong, what to decide, whether money and work move, and the next 24 hours."""
    await live(api, clock)
    await page.set_viewport_size({"width": 1440, "height": 900})
    await page.goto(api.url + "/")
    await page.wait_for_selector("#plot-day canvas")
    for part in ("#problems", "#inbox", "#money", "#moving", "#plot-day"):
        box = await page.locator(part).bounding_box()
        assert box is not None
        assert box["y"] + box["height"] <= 900, part


@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (390, "dark")])
async def test_no_page_breaks_a_rule_above_minor(
    chromium: Chromium, api: Api, clock: Clock, width: int, scheme: Literal["light", "dark"]
) -> None:
    await live(api, clock)
    context = await chromium.new_context(
        locale="en-US", viewport={"width": width, "height": 900}, color_scheme=scheme
    )
    page = await context.new_page()
    await sign_in(page, api, api.key)
    wrong = []
    for path in PAGES:
        await page.goto(api.url + path)
        wrong += [f"{path}: {each}" for each in await violations(page)]
        wide = await page.evaluate("document.documentElement.scrollWidth - innerWidth")
        wrong += [f"{path}: {wide} px too wide"] if wide > 0 else []
    await context.close()
    assert wrong == []
