"""What if, in the console: asked where one would ask, seen before it is made, and taken back."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from playwright.async_api import Page, expect

from conftest import Api
from postdate.change_set.change.lane_operation import LaneOperation
from postdate.node import initial_key as first
from postdate.tenant.change.tenant import Tenants
from support.plain_browser import Browser
from support.real_browser import make, needs_chromium

pytestmark = pytest.mark.own_database("foresight reads the due work of every tenant")

expect.set_options(timeout=30_000)


@pytest.fixture
async def browser(api: Api) -> AsyncIterator[Browser]:
    async with Browser(api) as opened:
        await opened.sign_in()
        yield opened


async def jobs(api: Api, many: int, lane: str = "mail") -> None:
    spec = {"destination": {"type": "worker"}, "delay_seconds": 3600, "lane": lane}
    await make(api, "/jobs/batch", {"jobs": [spec] * many})


async def draft(api: Api, *changes: object) -> str:
    made = await make(api, "/change-sets", {"changes": changes, "note": "deploy"})
    return f"/change-sets/{made['change_set_id']}"


@needs_chromium
async def test_from_a_lane_to_its_effect_to_the_change_and_back(page: Page, api: Api) -> None:
    await jobs(api, 120)
    asked = page.get_by_role("link", name="What if…")
    while not await asked.count():  # what a page shows of lanes may be two seconds old
        await page.goto(f"{api.url}/lanes")
    await asked.click()
    await expect(page.locator('[name="changes.0.lane"]')).to_have_value("mail")
    await page.get_by_label("Rate per second").fill("0.5")
    await page.get_by_role("button", name="See what it would do").click()
    await expect(page.locator(".notice")).to_contain_text("Nothing has been changed")
    late = page.locator("tr", has_text="jobs of lane mail").locator("td").last
    await expect(late).to_contain_text("min, worst between")
    await expect(page.locator("#progress")).to_contain_text("not made yet")
    await page.get_by_role("link", name="Apply…").click()
    await page.get_by_role("button", name="Apply").click()
    await expect(page.locator(".notice")).to_contain_text("1 change was made")
    assert (await api.call("GET", "/lanes/mail")).body["rate_per_second"] == 0.5
    await page.get_by_role("link", name="Undo…").click()
    await page.get_by_role("button", name="Undo the changes").click()
    await expect(page.locator("#progress")).to_contain_text("undone")
    assert (await api.call("GET", "/lanes/mail")).body["rate_per_second"] is None


@needs_chromium
async def test_the_page_follows_a_set_that_somebody_else_applies(page: Page, api: Api) -> None:
    await jobs(api, 1)
    path = await draft(api, {"type": "pause_lane", "lane": "mail"})
    await api.node.database.writer.execute("UPDATE change_set SET status = 'APPLYING'")
    await page.goto(api.url + path)
    await expect(page.locator("#progress")).to_contain_text("not made yet")
    await api.call("POST", f"{path}/apply")
    await expect(page.locator("#progress")).to_contain_text("made")
    await expect(page.locator("#progress")).not_to_contain_text("not made yet")


async def test_a_list_of_jobs_asks_about_exactly_what_it_shows(browser: Browser) -> None:
    await jobs(browser.api, 3)
    await jobs(browser.api, 2, "other")
    shown = (await browser.get("/jobs?lane=mail&status=PENDING")).text
    link = shown.partition('href="/what-if/cancel-jobs?')[2].partition('"')[0]
    form = await browser.get(f"/what-if/cancel-jobs?{link.replace('&amp;', '&')}")
    assert 'name="changes.0.filter.lane" type="text" value="mail"' in form.text
    assert '<option value="PENDING" selected>' in form.text
    fields = {"changes.0.filter.lane": "mail", "changes.0.filter.status": "PENDING"}
    made = await browser.confirm("/what-if/cancel-jobs", **fields)
    page = (await browser.get(made.headers["location"])).text
    assert "<strong>3</strong> <span>jobs and payments move to another time" in page
    listed = (await browser.get("/change-sets")).text
    assert "Cancel jobs" in listed
    assert "0 of 1" in listed


async def payments(api: Api) -> list[str]:
    for name in ("alice", "bob"):
        await make(api, "/accounts", {"account_id": name})
    await make(api, "/accounts/alice/adjustments", {"amount": 1000, "reason": "opening"})
    rent = {"from_account_id": "alice", "to_account_id": "bob", "amount": 300}
    return [
        (await make(api, "/payments/schedule", {**rent, "delay_seconds": delay}))["payment_id"]
        for delay in (3600, 7200)
    ]


async def try_out_and_apply(page: Page, effect: str) -> None:
    await page.get_by_role("button", name="See what it would do").click()
    await expect(page.locator("main")).to_contain_text(effect)
    await page.get_by_role("link", name="Apply…").click()
    await page.get_by_role("button", name="Apply").click()
    await expect(page.locator(".notice")).to_contain_text("1 change was made")


@needs_chromium
async def test_payments_are_moved_by_a_filter(page: Page, api: Api) -> None:
    made = await payments(api)
    later = (datetime.now(UTC) + timedelta(days=3)).replace(microsecond=0)
    await page.goto(f"{api.url}/what-if/reschedule-payments")
    await page.get_by_label("From account").fill("alice")
    await page.get_by_label("New time").fill(later.strftime("%Y-%m-%dT%H:%M:%S"))
    await try_out_and_apply(page, "2 jobs and payments move")
    for each in made:
        found = (await api.call("GET", f"/payments/{each}")).body
        assert datetime.fromisoformat(found["scheduled_time"]) == later


@needs_chromium
async def test_payments_are_cancelled_by_a_filter(page: Page, api: Api) -> None:
    made = await payments(api)
    await page.goto(f"{api.url}/what-if/cancel-payments")
    await page.get_by_label("To account").fill("bob")
    await try_out_and_apply(page, "2 jobs and payments move")
    for each in made:
        assert (await api.call("GET", f"/payments/{each}")).body["status"] == "CANCELLED"


@needs_chromium
async def test_a_setting_is_tried_out_before_it_is_made(page: Page, api: Api) -> None:
    await jobs(api, 120)
    await page.goto(f"{api.url}/what-if/put-setting")
    await page.locator('[name="changes.0.name"]').select_option("foresight.jobs_per_second")
    await page.get_by_label("Value").fill("0.5")
    await try_out_and_apply(page, "min, worst between")
    await api.node.refresh_settings()
    found = (await api.call("GET", "/settings")).body["settings"]
    assert [each["value"] for each in found if each["name"] == "foresight.jobs_per_second"] == [0.5]


@needs_chromium
async def test_a_halt_is_tried_out_before_it_is_made(page: Page, api: Api) -> None:
    await page.goto(f"{api.url}/what-if/halt")
    await page.get_by_label("Why").fill("fraud")
    await page.get_by_role("button", name="See what it would do").click()
    await expect(page.locator(".notice")).to_contain_text("Nothing has been changed")
    await expect(page.locator("#progress")).to_contain_text("not made yet")
    spec = {"destination": {"type": "worker"}}
    assert (await api.call("POST", "/jobs", spec)).status == 201, "it is halted already"


async def test_a_draft_names_the_payments_that_fail_only_then(browser: Browser) -> None:
    api = browser.api
    for name in ("alice", "bob"):
        await make(api, "/accounts", {"account_id": name})
    await make(api, "/accounts/bob/adjustments", {"amount": 100_000, "reason": "opening"})
    wage = {"from_account_id": "bob", "to_account_id": "alice", "amount": 700}
    rule = {"every_seconds": 1800, "template": {"payment": wage}}
    schedule_id = (await make(api, "/schedules", rule))["schedule_id"]
    rent = {"from_account_id": "alice", "to_account_id": "bob", "amount": 500}
    order = {**rent, "delay_seconds": 5400, "funding": "at_execution"}
    payment_id = (await make(api, "/payments/schedule", order))["payment_id"]
    path = await draft(api, {"type": "pause_schedule", "schedule_id": schedule_id})
    page = (await browser.get(path)).text
    assert "insufficient funds" in page
    assert f'href="/payments/{payment_id}"' in page
    await browser.sign_in(await api.new_key("jobs:read", "schedules:write"))
    hidden = (await browser.get(path)).text
    assert "payments fail" not in hidden
    assert payment_id not in hidden


async def test_payments_of_a_set_are_counted_and_what_is_left_is_said(browser: Browser) -> None:
    api = browser.api
    for name in ("alice", "bob"):
        await make(api, "/accounts", {"account_id": name})
    await make(api, "/accounts/bob/adjustments", {"amount": 1000, "reason": "opening"})
    rent = {"from_account_id": "bob", "to_account_id": "alice", "amount": 700}
    payment_id = (await make(api, "/payments/schedule", {**rent, "delay_seconds": 60}))[
        "payment_id"
    ]
    path = await draft(api, {"type": "cancel_payments", "filter": {"to_account_id": "alice"}})
    assert "payments of 700" in (await browser.get(path)).text
    await browser.confirm(f"{path}/apply")
    await make(api, "/payments/schedule", {**rent, "delay_seconds": 90})
    await browser.confirm(f"{path}/undo")
    page = (await browser.get(path)).text
    assert f"left as it is: payment {payment_id}: insufficient_funds" in page


async def test_a_refused_step_says_why_and_the_set_can_go_on(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    await jobs(browser.api, 1)
    path = await draft(browser.api, {"type": "pause_lane", "lane": "mail"})

    async def full(*_: object) -> int:
        raise TimeoutError

    with monkeypatch.context() as broken:
        broken.setattr(LaneOperation, "make", full)
        refused = await browser.confirm(f"{path}/apply")
        assert refused.status >= 500
    page = (await browser.get(path)).text
    assert "Go on applying…" in page
    assert "being made" in page
    done = await browser.confirm(f"{path}/apply")
    assert done.status == 303, done.text
    assert (await browser.api.call("GET", "/lanes/mail")).body["paused"] is True


async def test_a_key_needs_the_scope_of_each_change(browser: Browser) -> None:
    await jobs(browser.api, 1)
    path = await draft(browser.api, {"type": "pause_lane", "lane": "mail"})
    await browser.sign_in(await browser.api.new_key("jobs:read"))
    assert (await browser.get("/what-if/pause-lane")).status == 403
    refused = await browser.confirm(f"{path}/apply")
    assert refused.status == 403
    assert (await browser.api.call("GET", "/lanes/mail")).body["paused"] is False


async def test_foresight_tells_lanes_destinations_and_tenants_apart(browser: Browser) -> None:
    api = browser.api
    await jobs(api, 3)
    await jobs(api, 5, "reports")
    by_lane = (await browser.get("/foresight?by=lane")).text
    assert by_lane.index(">reports</a>") < by_lane.index(">mail</a>")
    one = (await browser.get("/foresight?lane=mail")).text
    assert "Lane mail ✕" in one
    assert ">reports</a>" not in one
    assert "worker" in (await browser.get("/foresight?by=destination")).text
    assert (await browser.get("/foresight?by=tenant")).status == 403
    tenants = Tenants(api.node.database)
    await first.ensure_tenant(tenants)
    operator = replace(api, key=(await tenants.issue(first.TENANT, ["admin"])).key)
    await browser.sign_in(operator.key)
    assert api.tenant in (await browser.get("/foresight?by=tenant")).text
