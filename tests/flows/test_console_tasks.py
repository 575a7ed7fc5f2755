"""Fifteen tasks of a person on call or in finance, each in half of the clicks of before, or three.

A click is a click of the mouse. Whatever else is done is done by keys: the search box, `g` and a
letter, Tab through the fields of a form, whose first one has the cursor.
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Locator, Page, expect
from playwright.async_api import TimeoutError as PlaywrightTimeoutError

from conftest import Api, Clock
from flows.test_console_frame import failed
from postdate.node.schedule import occurrences
from postdate.scheduler.expander import LIMIT, Expander
from postdate.scheduler.meter import ScheduleMeter
from support.event import seal_all
from support.real_browser import make, needs_chromium

pytestmark = [
    needs_chromium,
    pytest.mark.own_database("foresight and the overview read the work of every tenant"),
]

expect.set_options(timeout=30_000)

WORKER = {"destination": {"type": "worker"}}
MAX_TABS = 40


@dataclass
class Hand:
    """A person at a page, and how often they clicked."""

    page: Page
    api: Api
    clicks: int = 0

    async def click(self, what: Locator) -> None:
        self.clicks += 1
        await what.click()

    async def press(self, name: str) -> None:
        """Click on a link or a button, by the beginning of what it says."""
        pressed = self.page.locator("main, .state").locator("a, button").filter(has_text=name)
        await self.click(pressed.first)

    async def confirm(self) -> None:
        """Click on what a form does."""
        await self.click(self.page.locator("#form .primary, #form .danger").first)

    async def go(self, letter: str) -> None:
        await self.page.wait_for_load_state()
        await self.page.keyboard.press("g")
        await self.page.keyboard.press(letter)
        await self.page.wait_for_load_state()

    async def find(self, text: str) -> None:
        """Type into the search box and press Enter."""
        await self.page.wait_for_load_state()
        await self.page.keyboard.press("/")
        await self.page.keyboard.type(text)
        async with self.page.expect_navigation():
            await self.page.keyboard.press("Enter")

    async def write(self, **fields: str) -> None:
        """Write into fields of a form, from the one with the cursor on by Tab."""
        # The page's script puts the cursor there, unless no field is empty.
        with suppress(PlaywrightTimeoutError):
            await self.page.wait_for_selector(":focus", timeout=5000)
        for name, text in fields.items():
            field = name.replace("__", ".")
            for _ in range(MAX_TABS):
                if await self.page.evaluate("document.activeElement.name") == field:
                    break
                await self.page.keyboard.press("Tab")
            assert await self.page.evaluate("document.activeElement.name") == field
            await self.page.keyboard.press("Control+A")
            await self.page.keyboard.type(text)

    def main(self) -> Locator:
        return self.page.locator("main")


@pytest.fixture
async def hand(page: Page, api: Api) -> Hand:
    await page.set_viewport_size({"width": 1440, "height": 900})
    await page.goto(api.url + "/")
    return Hand(page, api)


async def euros(api: Api) -> None:
    for name in ("payroll", "ann"):
        await make(api, "/accounts", {"account_id": name, "currency": "EUR"})
    await make(api, "/accounts/payroll/adjustments", {"amount": 500_050, "reason": "opening"})


async def pay(api: Api, amount: int, **more: Any) -> str:
    order = {"from_account_id": "payroll", "to_account_id": "ann", "amount": amount}
    return str((await make(api, "/payments/schedule", {**order, **more}))["payment_id"])


async def failed_job(api: Api) -> str:
    await failed(api, 1, "broken")
    (job,) = (await api.call("GET", "/dead-letters")).body["jobs"]
    return str(job["job_id"])


async def test_why_a_job_failed(hand: Hand) -> None:
    await hand.find(await failed_job(hand.api))
    await expect(hand.page.locator(".why")).to_contain_text("Failed permanently")
    await expect(hand.page.locator(".why")).to_contain_text("broken")
    assert hand.clicks == 0


async def test_one_failure_is_redriven(hand: Hand) -> None:
    job = await failed_job(hand.api)
    await hand.find(job)
    await hand.press("Redrive…")
    await hand.write(reason="the receiver is back")
    await hand.confirm()
    await expect(hand.page.locator(".notice")).to_be_visible()
    assert (await hand.api.call("GET", f"/jobs/{job}")).body["redriven_as"]
    assert hand.clicks <= 3


async def test_two_hundred_jobs_are_cancelled(hand: Hand) -> None:
    spec = {**WORKER, "delay_seconds": 36_000, "lane": "many"}
    for many in (100, 100, 60):
        await make(hand.api, "/jobs/batch", {"jobs": [spec] * many})
    await hand.go("j")
    await hand.click(hand.page.locator("form.filters [name=lane]").first)
    await hand.page.keyboard.type("many")
    await hand.page.keyboard.press("Enter")
    await hand.page.wait_for_url("**lane=many**")
    await hand.press("cancel…")
    await expect(hand.main()).to_contain_text("260")
    await hand.write(reason="sent twice")
    await hand.confirm()
    await expect(hand.main()).to_contain_text("260")
    assert hand.clicks <= 3


async def test_a_payment_is_scheduled(hand: Hand) -> None:
    await euros(hand.api)
    await hand.go("p")
    await hand.press("New payment…")
    await hand.write(
        from_account_id="payroll", to_account_id="ann", amount="125.50", delay_seconds="3600"
    )
    await hand.confirm()
    await expect(hand.main()).to_contain_text("125.50 EUR")
    (made,) = (await hand.api.call("GET", "/payments")).body["payments"]
    assert made["amount"] == 12_550
    assert hand.clicks <= 4


async def test_the_balance_of_tomorrow(hand: Hand) -> None:
    await euros(hand.api)
    await pay(hand.api, 100_000, delay_seconds=3600)
    await hand.find("payroll")
    await hand.press("Its balance ahead")
    await hand.press("Next day")
    tile = hand.page.locator(".tile").filter(has_text="at the end")
    await expect(tile).to_contain_text("4,000.50 EUR")
    assert hand.clicks <= 3


async def test_what_fails_next_week(hand: Hand) -> None:
    await euros(hand.api)
    await pay(hand.api, 600_050, delay_seconds=3 * 86_400, funding="at_execution")
    await hand.go("m")
    await hand.press("Next week")
    await expect(hand.page.locator(".headline")).to_contain_text("Pay in 1,000.00 EUR by")
    await expect(hand.page.locator("#causes")).to_contain_text("payroll")
    assert hand.clicks <= 3


async def test_a_destination_is_paused(hand: Hand) -> None:
    await make(hand.api, "/destinations", {"name": "crm", "url": "https://crm.example/hook"})
    await hand.find("crm")
    await hand.press("Pause…")
    await hand.write(reason="maintenance until nine")
    await hand.confirm()
    await expect(hand.main()).to_contain_text("maintenance until nine")
    assert (await hand.api.call("GET", "/destinations/crm")).body["status"] == "PAUSED"
    assert hand.clicks <= 3


async def test_a_payment_is_found_by_its_amount_and_by_its_text(hand: Hand) -> None:
    await euros(hand.api)
    payment = await pay(hand.api, 123_403, delay_seconds=3600, description="boat of the harbour")
    for text in ("1,234.03", "boat of the"):
        await hand.find(text)
        link = hand.page.locator(f'main a[href="/payments/{payment}"]')
        await expect(link.or_(hand.page.locator("h1", has_text=payment)).first).to_be_visible()
    assert hand.clicks == 0


async def test_who_cancelled_a_job(hand: Hand) -> None:
    spec = {**WORKER, "delay_seconds": 3600, "lane": "mail"}
    job = (await make(hand.api, "/jobs", spec))["job_id"]
    asked = {"filter": {"lane": "mail"}, "reason": "ordered by mistake"}
    assert (await hand.api.call("POST", "/jobs/bulk/cancel", asked)).status == 200
    await seal_all(hand.api.node.database)
    await hand.find(job)
    await expect(hand.main()).to_contain_text("Cancelled")
    told = hand.main().get_by_text("ordered by mistake").first
    if not await told.is_visible():
        await hand.click(hand.page.get_by_text("Events as they were recorded"))
    await expect(told).to_be_visible()
    assert hand.clicks <= 1


async def test_a_schedule_shows_what_the_change_of_the_clock_does(hand: Hand) -> None:
    await hand.go("s")
    await hand.press("New schedule")
    await hand.write(name="nightly", cron="30 2 * * *", timezone="Europe/Berlin")
    await expect(hand.page.locator("#preview")).to_contain_text("02:30")
    assert hand.clicks <= 3


async def test_everything_is_stopped_and_released(hand: Hand) -> None:
    await hand.go("c")
    await hand.press("Kill switch…")
    await hand.write(note="strange payments")
    await hand.page.keyboard.press("Enter")
    await expect(hand.page.locator(".state.stopped")).to_contain_text("strange payments")
    await hand.click(hand.page.locator(".state a.button"))
    await hand.confirm()
    await expect(hand.page.locator(".state.running")).to_be_visible()
    assert hand.clicks <= 3


async def test_the_spike_of_the_next_day_is_on_the_first_page(hand: Hand) -> None:
    await expect(hand.page.locator("#plot-day canvas")).to_be_visible()
    at = (datetime.now(UTC) + timedelta(hours=3)).isoformat()
    await make(hand.api, "/jobs/batch", {"jobs": [{**WORKER, "run_at": at}] * 90})
    await hand.go("f")
    await expect(hand.page.locator("#plot-load canvas")).to_be_visible()
    await expect(hand.main()).to_contain_text("90")
    assert hand.clicks == 0


async def test_a_key_is_rotated(hand: Hand) -> None:
    await hand.go("c")
    await hand.press("Rotate…")
    await hand.confirm()
    await expect(hand.page.locator(".notice")).to_contain_text("pdk_")
    assert hand.clicks <= 3


async def test_a_statement_is_taken_as_a_file(hand: Hand) -> None:
    await euros(hand.api)
    await hand.find("payroll")
    await hand.press("Statement")
    async with hand.page.expect_download() as told:
        await hand.press("CSV")
    file = await asyncio.to_thread(Path(await (await told.value).path()).read_text)
    assert "5000.50" in file
    assert hand.clicks <= 3


async def test_expected_runs_against_what_ran(hand: Hand, clock: Clock) -> None:
    rule = {"name": "poll", "every_seconds": 60, "template": {"job": WORKER}}
    await make(hand.api, "/schedules", rule)
    database = hand.api.node.database
    book = Expander(database, occurrences(hand.api.node), ScheduleMeter())
    for _ in range(3):
        await clock.advance(60)
        await book.run_once(LIMIT)
    await hand.find("poll")
    head = hand.page.locator("table", has=hand.page.get_by_text("Expected")).first
    await expect(head.locator("tbody tr").first).to_contain_text("created")
    assert hand.clicks <= 2
