"""The console in a real Chromium: nothing runs that we did not write, and the overview lives."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest
from playwright.async_api import Browser as Chromium
from playwright.async_api import BrowserContext, Dialog, Page, expect

from conftest import Api
from postdate.bulk_action.change import bulk_action
from postdate.bulk_action.change import work_off as working
from postdate.node import bulk_action as node_bulk_action
from support.bulk_work import work_off
from support.real_browser import WATCH, make, needs_chromium

pytestmark = [
    needs_chromium,
    pytest.mark.own_database("foresight reads the due work of every tenant"),
]

CORPUS = (
    "<script>window.pwned = 1</script>",
    "</script><script>window.pwned = 2</script>",
    '"><img src=x onerror="window.pwned = 3">',
    "'><svg onload=window.pwned=4>",
    "<a href=javascript:window.pwned=5>x</a>",
    "{{ 7 * 7 }}{% raw %}",
    "<!--<script>window.pwned = 6</script>-->",
    "<div hx-get=/settings hx-trigger=load hx-swap=outerHTML>x</div>",
    "<style>body { display: none }</style>",
    "</pre></details></td></table><iframe srcdoc='<script>parent.pwned=7</script>'>",
    "\u2028\u2029\u202e<b>right to left</b>",
)
LISTS = (
    "/",
    "/jobs",
    "/payments",
    "/schedules",
    "/accounts",
    "/accounts/alice",
    "/dead-letters",
    "/events",
    "/lanes",
    "/foresight?by=lane",
    "/change-sets",
    "/what-if",
    "/destinations",
    "/subscriptions",
    "/audit",
    "/settings",
)


@dataclass
class Visitor:
    """A tab, and what it must not have seen."""

    api: Api
    page: Page
    heard: list[str] = field(default_factory=list)

    async def open(self, path: str) -> None:
        await self.page.goto(self.api.url + path)

    async def clean(self, path: str) -> None:
        """Open a page and see that nothing but its own scripts ran, and that it fits."""
        await self.open(path)
        assert await self.page.evaluate("window.violations") == [], path
        assert await self.page.evaluate("window.pwned") is None, path
        assert await self.page.evaluate("getComputedStyle(document.body).display") == "block"
        width = await self.page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert width <= 0, f"{path} is {width} px too wide"
        assert self.heard == [], path


async def sign_in(context: BrowserContext, api: Api) -> Visitor:
    page = await context.new_page()
    visitor = Visitor(api, page)

    async def dialog(shown: Dialog) -> None:
        visitor.heard.append(f"dialog: {shown.message}")
        await shown.dismiss()

    page.on("dialog", dialog)
    page.on("pageerror", lambda error: visitor.heard.append(f"error: {error}"))
    await page.add_init_script(WATCH)
    await visitor.open("/")
    await page.get_by_label("API key").fill(api.key)
    await page.get_by_role("button", name="Sign in").click()
    await page.wait_for_url(api.url + "/")
    return visitor


@pytest.fixture
async def visitor(chromium: Chromium, api: Api) -> AsyncIterator[Visitor]:
    context = await chromium.new_context(locale="en-US")
    yield await sign_in(context, api)
    await context.close()


@pytest.fixture
async def phone(chromium: Chromium, api: Api) -> AsyncIterator[Visitor]:
    context = await chromium.new_context(
        locale="en-US", viewport={"width": 360, "height": 740}, color_scheme="dark"
    )
    yield await sign_in(context, api)
    await context.close()


async def hostile(api: Api) -> list[str]:
    """Fill every field that takes free text, and give the pages that show them."""
    due = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    for name in ("alice", "bob"):
        await make(api, "/accounts", {"account_id": name, "note": CORPUS[0]})
    for text in CORPUS[:4]:
        await make(api, "/accounts/alice/adjustments", {"amount": 100, "reason": text})
    jobs, payments = [], []
    for text in CORPUS:
        spec = {
            "destination": {"type": "worker"},
            "run_at": due,
            "payload": {text: [text]},
            "metadata": {"k": text, text[:40]: 1},
            "description": text,
        }
        jobs.append((await make(api, "/jobs", spec))["job_id"])
        order = {
            "from_account_id": "alice",
            "to_account_id": "bob",
            "amount": 1,
            "scheduled_time": due,
            "description": text,
        }
        payments.append((await make(api, "/payments/schedule", order))["payment_id"])
    await make(api, "/lanes/default/pause", {"note": CORPUS[2]})
    return [*(f"/jobs/{one}" for one in jobs), *(f"/payments/{one}" for one in payments[:3])]


async def test_hostile_text_stays_text(visitor: Visitor) -> None:
    pages = await hostile(visitor.api)
    await visitor.page.get_by_role("link", name="Work", exact=True).click()
    for path in (*LISTS, *pages):
        await visitor.clean(path)
    await visitor.clean("/find?q=%3Cscript%3Ewindow.pwned%3D8%3C/script%3E")
    await visitor.clean(
        "/lanes/%3Cscript%3Ewindow.pwned%3D9%3C%2Fscript%3E/pause?note=%22%3E%3Cb%3E"
    )


async def test_every_page_fits_a_phone(phone: Visitor) -> None:
    pages = await hostile(phone.api)
    for path in (*LISTS, pages[0], pages[-1]):
        await phone.clean(path)


async def test_small_rates_have_different_marks_on_the_axis(visitor: Visitor) -> None:
    await visitor.page.wait_for_selector("#plot-day canvas")
    marks = await visitor.page.evaluate("[0, 0.017, 0.25, 2.5, 1234.5, -70].map(count)")
    assert marks == ["0", "0.017", "0.25", "2.5", "1,235", "-70"]


async def test_the_overview_follows_without_being_loaded_again(visitor: Visitor) -> None:
    page = visitor.page
    await page.wait_for_selector("#plot-day canvas")
    await page.evaluate("window.kept = true")
    tile = page.locator("#tile-backlog strong")
    assert await tile.inner_text() == "0"
    await make(visitor.api, "/jobs", {"destination": {"type": "worker"}, "lane": "reports"})
    await expect(tile).to_have_text("1", timeout=15_000)
    await page.wait_for_selector("text=Lane reports is late", timeout=20_000)
    assert await page.evaluate("window.kept") is True
    assert await page.locator("#plot-day canvas").count() == 1
    assert await page.evaluate("window.violations") == []
    assert visitor.heard == []


async def test_a_job_is_rescheduled_run_and_cancelled_by_hand(visitor: Visitor) -> None:
    page, api = visitor.page, visitor.api
    spec = {"destination": {"type": "worker"}, "delay_seconds": 3600}
    job_id = (await make(api, "/jobs", spec))["job_id"]
    await page.keyboard.press("/")
    await page.keyboard.type(job_id)
    await page.keyboard.press("Enter")
    await page.wait_for_url(f"**/jobs/{job_id}")
    await page.get_by_role("link", name="Reschedule…").click()
    later = datetime.now(UTC) + timedelta(hours=5)
    await page.get_by_label("New time").fill(later.strftime("%Y-%m-%dT%H:%M:%S"))
    await page.get_by_role("button", name="Reschedule").click()
    await page.wait_for_selector(f"text=The job is due at {later:%Y-%m-%d %H:%M:%S} UTC.")
    await page.get_by_role("link", name="Run now…").click()
    await page.get_by_role("button", name="Run now").click()
    await page.wait_for_selector("text=The job is due now")
    await page.get_by_role("link", name="Cancel…").click()
    await page.get_by_role("button", name="Cancel job").click()
    await page.wait_for_selector("text=The job is cancelled; it was never tried.")
    assert (await api.call("GET", f"/jobs/{job_id}")).body["status"] == "CANCELLED"


async def test_rows_are_walked_selected_and_cancelled_by_keys(visitor: Visitor) -> None:
    page, api = visitor.page, visitor.api
    for number in range(3):
        spec = {"destination": {"type": "worker"}, "delay_seconds": 3600 + number}
        await make(api, "/jobs", spec)
    await page.keyboard.press("g")
    await page.keyboard.press("j")
    await page.wait_for_url("**/jobs")
    for key in ("j", "x", "j", "x", "k"):
        await page.keyboard.press(key)
    await expect(page.locator(".selected")).to_have_text("2 selected")
    await expect(page.locator("tr.at")).to_have_count(1)
    await page.get_by_role("button", name="Cancel selected…").click()
    await page.get_by_label("Reason").fill("not needed")
    await page.get_by_role("button", name="Cancel these (2)").click()
    await expect(page.locator("#work")).to_contain_text("Nothing has been changed yet.")
    await page.get_by_role("button", name="Begin now").click()
    await expect(page.locator(".notice")).to_contain_text("It has begun.")
    await work_off(api)
    await expect(page.locator("#work")).to_contain_text("2 of 2 processed")
    await page.wait_for_load_state()  # the text may be there before the scripts that hear keys
    await page.keyboard.press("?")
    await expect(page.locator("#help")).to_be_visible()
    await page.keyboard.press("Escape")
    assert await page.evaluate("window.violations") == []


async def test_work_on_many_goes_on_by_itself_and_can_be_left(
    visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(working, "PIECE", 20)
    monkeypatch.setattr(bulk_action, "UNDO_SECONDS", 0.0)
    page, api = visitor.page, visitor.api
    spec = {"destination": {"type": "worker"}, "delay_seconds": 3600, "lane": "many"}
    await make(api, "/jobs/batch", {"jobs": [spec] * 41})
    await visitor.open("/jobs/bulk/cancel?filter.lane=many&dry=1")
    await page.get_by_label("Reason").fill("too many")
    await page.get_by_role("button", name="Cancel these (41)").click()
    await page.wait_for_url("**/bulk-actions/*")
    worker = node_bulk_action.worker(api.node)
    await worker.run_once(1)
    await visitor.open("/payments")
    await expect(page.locator(".unfinished")).to_contain_text("20 of 41")
    await page.get_by_role("link", name="See it or stop it").click()
    await expect(page.locator("#work dd").first).to_have_text("20")
    while await worker.run_once(1):
        pass
    await expect(page.locator("#work dd").first).to_have_text("41", timeout=15_000)
    await expect(page.get_by_role("button", name="Stop")).to_have_count(0)
    assert (await api.call("GET", "/jobs?lane=many&status=PENDING")).body["jobs"] == []
    assert await page.evaluate("window.violations") == []
    assert visitor.heard == []


async def test_the_box_shows_what_it_found_while_typing(visitor: Visitor) -> None:
    page, api = visitor.page, visitor.api
    await make(api, "/accounts", {"account_id": "alice"})
    await page.keyboard.press("/")
    await page.keyboard.type("alice")
    await expect(page.locator("#hits a")).to_have_attribute("href", "/accounts/alice")
    assert await page.evaluate("window.violations") == []


async def test_two_tabs_share_one_stream(visitor: Visitor) -> None:
    first = visitor.page
    second = await first.context.new_page()
    asked: list[str] = []
    second.on("request", lambda request: asked.append(request.url))
    await second.goto(visitor.api.url + "/")
    await expect(second.locator("#live")).to_have_text("● live 2 s")
    tile = second.locator("#tile-backlog strong")
    await make(visitor.api, "/jobs", {"destination": {"type": "worker"}, "lane": "reports"})
    await expect(tile).to_have_text("1", timeout=15_000)
    assert not [url for url in asked if url.endswith("/stream")]


async def test_times_are_shown_in_utc_or_in_the_zone_of_the_reader(
    chromium: Chromium, api: Api
) -> None:
    context = await chromium.new_context(locale="en-US", timezone_id="Asia/Tokyo")
    visitor = await sign_in(context, api)
    await make(
        api,
        "/jobs",
        {"destination": {"type": "worker"}, "run_at": "2030-06-01T12:00:00Z"},
    )
    await visitor.open("/jobs")
    shown = visitor.page.locator("td .absolute").first
    assert await shown.inner_text() == "2030-06-01 12:00:00 UTC"
    await visitor.page.get_by_role("button", name="Times in UTC").click()
    assert "21:00:00" in await shown.inner_text()
    await visitor.open("/jobs")
    assert "21:00:00" in await shown.inner_text()
    await context.close()
