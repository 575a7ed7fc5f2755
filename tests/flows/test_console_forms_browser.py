"""In Chromium: every form is filled in and sent, every kind of problem is shown and leads on.

One browser, one tab and one tenant for all of it: a form takes a fraction of a second.
"""

import time
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import msgspec
import pytest
from playwright.async_api import Browser as Chromium
from playwright.async_api import Page, async_playwright, expect

from conftest import Api
from flows.test_console_forms import CREATED
from postdate.console import bulk
from postdate.console.forms import FORMS
from postdate.delivery.breaker import FAILURES, Health
from postdate.intake.tenant.tenant import Tenants
from postdate.node import initial_key as first
from postdate.store.operate.overview import LaggingSubscription
from postdate.views.monitor.overview import LaneBacklog, Overview, OverviewViews
from postdate.worker.trouble import TroubleReporter
from support.plain_browser import PROGRAM

pytestmark = pytest.mark.skipif(
    PROGRAM is None, reason="no chromium here (Debian: apt-get install chromium)"
)

# A busy machine must not fail a test: nothing here is about how fast it is.
expect.set_options(timeout=30_000)

WATCH = """
window.violations = [];
addEventListener("securitypolicyviolation", (event) => window.violations.push(event.blockedURI));
"""
FIELDS: dict[str, dict[str, str]] = {
    **CREATED,
    "/jobs/{job_id:uuid}/edit": {"payload": '{"to": "bob"}', "timeout_seconds": "7"},
    "/accounts/{account_id}/edit": {"floor": "-700", "note": "seen by hand"},
    "/destinations/{name}/edit": {"max_running": "3"},
    "/lanes/{lane}/edit": {"weight": "5"},
    "/schedules/{schedule_id:uuid}/edit": {"cron": "0 10 1 * *"},
    "/jobs/{job_id:uuid}/purge": {},
    "/destinations/{name}/rotate": {"overlap_seconds": "60"},
    "/destinations/{name}/delete": {},
    "/halts/kill": {"note": "fraud"},
    "/halts/release": {},
    "/halts/freeze": {"note": "audit", "until": "2035-01-01T00:00:00"},
    "/halts/thaw": {},
}
"""What is typed into each form, by the path of the form."""


@pytest.fixture(scope="module")
async def chromium() -> AsyncIterator[Chromium]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=PROGRAM, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        yield browser
        await browser.close()


@pytest.fixture
async def page(chromium: Chromium, api: Api) -> AsyncIterator[Page]:
    context = await chromium.new_context(locale="en-US")
    opened = await context.new_page()
    await opened.add_init_script(WATCH)
    await sign_in(opened, api, api.key)
    yield opened
    assert await opened.evaluate("window.violations") == []
    await context.close()


async def sign_in(page: Page, api: Api, key: str) -> None:
    """Take the session without loading a page for it."""
    seen = await page.request.post(
        api.url + "/login", form={"key": key, "next": "/jobs"}, headers={"origin": api.url}
    )
    assert seen.ok


async def call(api: Api, path: str, body: Any) -> Any:
    answer = await api.call("POST", path, body, headers={"Idempotency-Key": uuid4().hex})
    assert answer.status in {200, 201}, answer.body
    return answer.body


async def failed_job(api: Api) -> str:
    spec = {"destination": {"type": "worker"}, "lane": "once", "retry": {"max_attempts": 1}}
    job_id = (await call(api, "/jobs", spec))["job_id"]
    (lease,) = (await call(api, "/lanes/once/claim", {"max": 1, "wait_seconds": 5}))["leases"]
    await call(api, f"/leases/{job_id}/fail", {"token": lease["token"], "error": "no"})
    return str(job_id)


async def prepare(api: Api) -> dict[str, str]:
    """Make what the edits begin with, and give the parts of their paths."""
    for name in ("alice", "bob"):
        await call(api, "/accounts", {"account_id": name})
    await call(api, "/accounts/alice/adjustments", {"amount": 10_000, "reason": "opening"})
    await call(api, "/destinations", {"name": "crm", "url": "https://crm.example/hook"})
    spec = {"destination": {"type": "worker"}, "delay_seconds": 3600, "payload": {"n": 2**70}}
    rule = {"cron": "0 9 1 * *", "template": {"job": {"destination": {"type": "worker"}}}}
    return {
        "job_id": (await call(api, "/jobs", spec))["job_id"],
        "failed_id": await failed_job(api),
        "schedule_id": (await call(api, "/schedules", rule))["schedule_id"],
        "account_id": "bob",
        "name": "crm",
        "lane": "default",
    }


def address(path: str, made: dict[str, str]) -> str:
    if path.endswith("/purge"):
        made = {**made, "job_id": made["failed_id"]}
    return path.replace(":uuid", "").format_map(made)


async def test_every_form_is_filled_in_and_sent(page: Page, api: Api) -> None:
    assert {form.path for form in FORMS} == set(FIELDS)
    made = await prepare(api)
    for form in FORMS:
        where = address(form.path, made)
        await page.goto(api.url + where)
        for name, text in FIELDS[form.path].items():
            field = page.locator(f'#form [name="{name}"]:visible')
            if await field.evaluate("field => field.tagName") == "SELECT":
                await field.select_option(text)
            else:
                await field.fill(text)
        await page.locator("#form").get_by_role("button", name=form.button, exact=True).click()
        await expect(page.locator(".notice"), where).to_be_visible()
        assert page.url != api.url + where
        await api.node.refresh_settings()
    job = (await api.call("GET", f"/jobs/{made['job_id']}")).body
    assert (job["payload"], job["timeout_seconds"]) == ({"to": "bob"}, 7)
    lane = (await api.call("GET", "/lanes/default")).body
    assert (lane["weight"], lane["width"]) == (5, 8)


async def test_an_edit_leaves_alone_what_was_not_touched(page: Page, api: Api) -> None:
    made = await prepare(api)
    await page.goto(f"{api.url}/jobs/{made['job_id']}/edit")
    await page.locator('[name="timeout_seconds"]:visible').fill("9")
    await page.get_by_role("button", name="Show as curl, CLI and Python").click()
    shown = page.locator(".as-code pre").first
    await expect(shown).to_contain_text('{"timeout_seconds": 9}')
    await page.get_by_role("button", name="Save").click()
    await expect(page.locator(".notice")).to_be_visible()
    text = await page.locator("pre.payload").inner_text()
    assert str(2**70) in text, "a large number was altered"


async def test_the_preview_follows_the_unsaved_rule(page: Page, api: Api) -> None:
    await page.goto(api.url + "/new/schedule")
    await expect(page.locator("#preview")).to_contain_text("No preview yet")
    await page.locator('[name="cron"]').fill("30 2 * * *")
    await page.locator('[name="timezone"]').fill("Europe/Berlin")
    await expect(page.locator("#preview table")).to_contain_text("02:30")


LANE = LaneBacklog(
    name="late", kind="pull", overdue=3, oldest=None, running=0, unknown=2, paused_at=None,
    paused_note=None, paused_by=None, max_running=None, rate_per_second=None, weight=1,
)  # fmt: skip


def with_every_problem(found: Overview) -> Overview:
    """Add to an overview what takes long to come about by itself."""
    at = found.slow.forecast.begin - timedelta(minutes=10)
    lagging = LaggingSubscription(
        uuid4(), {"url": "https://x.example"}, 3, at, "no", None, None, 5000
    )
    return msgspec.structs.replace(
        found,
        lanes=[*found.lanes, msgspec.structs.replace(LANE, oldest=at)],
        payments_parked=1,
        payments_overdue=2,
        payments_oldest=at,
        approvals_overdue=1,
        approvals_oldest=at,
        schedules_set_aside=1,
        subscriptions=[*found.subscriptions, lagging],
        slow=msgspec.structs.replace(found.slow, jobs_failed=2, payments_failed=1),
    )


PROBLEMS = (
    ("money", "1 payment could not be settled", "Decide"),
    ("money", "2 payments due and not settled", "See them"),
    ("money", "1 payment past due and not yet approved", "Approve or refuse"),
    ("stopped", "1 schedule set aside because of an error", "See the errors"),
    ("stopped", "Lane late is late: 3 jobs due.", "See them"),
    ("stopped", "2 jobs of lane late with unknown outcome", "Resolve"),
    ("stopped", "Destination shop is disabled.", "See why and enable"),
    ("failing", "Destination crm is failing.", "See its answers"),
    ("failing", "Subscription to https://x.example is 5,000 events behind.", "See it"),
    ("failing", "1 payment accepted in the last 24 h failed.", "See them"),
    ("failing", "2 jobs accepted in the last 24 h failed permanently.", "Redrive"),
    ("note", "Lane mail is paused.", "Resume"),
)


async def trouble(api: Api) -> None:
    """Pause, disable and break things as they are in life."""
    for name in ("shop", "crm"):
        await call(api, "/destinations", {"name": name, "url": f"https://{name}.example/hook"})
    await call(api, "/destinations/shop/disable", {"reason": "moved away"})
    spec = {"destination": {"type": "worker"}, "delay_seconds": 3600, "lane": "mail"}
    await call(api, "/jobs", spec)
    await call(api, "/lanes/mail/pause", {"note": "deploy"})
    tenant_id = await api.node.database.writer.fetchval(
        "SELECT tenant_id FROM tenant WHERE name = $1", api.tenant
    )
    now, breakers = time.monotonic(), api.node.outgoing.webhook.breakers
    for _ in range(FAILURES):
        breakers.record((tenant_id, "crm"), now, now, Health.DOWN, 0.0, "http_503: no")
    await TroubleReporter(api.node.database, api.node.node_id, api.node._reports).run_once()
    await api.node.refresh_settings()


async def test_every_kind_of_problem_is_shown_ranked_and_leads_to_what_helps(
    page: Page, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    await trouble(api)
    read = OverviewViews._read

    async def every_problem(views: OverviewViews, tenant_id: int) -> Overview:
        return with_every_problem(await read(views, tenant_id))

    monkeypatch.setattr(OverviewViews, "_read", every_problem)
    await page.goto(api.url + "/")
    for severity, text, link in PROBLEMS:
        row = page.locator(f"#problems li.{severity}", has_text=text)
        await expect(row, text).to_be_visible()
        where = await row.get_by_role("link", name=link).get_attribute("href")
        seen = await page.request.get(f"{api.url}{where}")
        assert seen.ok, (text, where)
    order = await page.locator("#problems li").evaluate_all(
        "rows => rows.map(row => row.className)"
    )
    ranks = ["money", "stopped", "failing", "note"]
    assert order == sorted(order, key=ranks.index)
    await expect(page.locator("#problems li.note")).to_contain_text("deploy.")


async def test_a_halt_is_a_note_with_the_button_that_ends_it(page: Page, api: Api) -> None:
    await api.call("PUT", "/kill-switch", {"note": "fraud"})
    await api.node.refresh_settings()
    await page.goto(api.url + "/")
    row = page.locator("#problems li.note", has_text="The kill switch is on")
    await row.get_by_role("link", name="Release it").click()
    await page.get_by_role("button", name="Release").click()
    await expect(page.locator(".notice")).to_contain_text("The kill switch is off.")


async def test_the_operator_sees_silent_nodes_and_missing_roles(page: Page, api: Api) -> None:
    tenants = Tenants(api.node.database)
    await first.ensure_tenant(tenants)
    gone = UUID(int=77)
    await api.node.database.writer.execute(
        "INSERT INTO node (node_id, name, roles, version, seen_at) "
        "VALUES ($1, 'lost-node', '{worker}', '1', clock() - interval '1 hour')",
        gone,
    )
    try:
        await sign_in(page, api, (await tenants.issue(first.TENANT, ["admin"])).key)
        await page.goto(api.url + "/")
        cluster = page.locator("#cluster-problems")
        await expect(cluster).to_contain_text("No node with the role settlement is alive.")
        row = cluster.locator("li", has_text="Node lost-node is silent.")
        await row.get_by_role("link", name="See its last calls").click()
        await expect(page.locator("h1")).to_contain_text("lost-node")
    finally:
        await api.node.database.writer.execute("DELETE FROM node WHERE node_id = $1", gone)


async def test_new_rows_wait_until_they_are_asked_for(page: Page, api: Api) -> None:
    spec = {"destination": {"type": "worker"}, "delay_seconds": 3600, "lane": "mail"}
    known = (await call(api, "/jobs", spec))["job_id"]
    await page.add_init_script(
        "const later = setTimeout; setTimeout = (f, ms) => later(f, ms / 20);"
    )
    await page.goto(api.url + "/jobs?lane=mail")
    await expect(page.locator("#list-live")).to_have_text("● live")
    await page.locator("tbody input[type=checkbox]").check()
    await expect(page.locator("#list-live")).to_have_text("paused")
    await call(api, "/jobs", spec)
    await api.call("POST", f"/jobs/{known}/cancel")
    row = page.locator(f'tr[data-row="{known}"]')
    await expect(row).to_contain_text("PENDING")
    await page.locator("tbody input[type=checkbox]").uncheck()
    await expect(page.locator("#new-rows")).to_have_text("1 new")
    await expect(row).to_contain_text("CANCELLED")
    assert await page.locator("tr[data-row]").count() == 1, "a row was put in"
    await page.locator("#new-rows").click()
    await expect(page.locator("tr[data-row]")).to_have_count(2)


async def test_a_view_is_kept_by_name_and_a_page_leads_back_to_the_list(
    page: Page, api: Api
) -> None:
    job_id = (await call(api, "/jobs", {"destination": {"type": "worker"}, "lane": "mail"}))[
        "job_id"
    ]
    await page.goto(api.url + "/jobs?lane=mail")
    await page.get_by_text("Saved views").click()
    await page.get_by_label("Name of this view").fill("<b>mail</b>")
    await page.get_by_role("button", name="Save").click()
    await page.goto(api.url + "/jobs")
    await page.get_by_text("Saved views").click()
    await page.get_by_role("link", name="<b>mail</b>").click()
    await page.wait_for_url("**/jobs?lane=mail")
    await page.locator(f'tr[data-row="{job_id}"] a').first.click()
    await page.locator(".crumb a").first.click()
    await page.wait_for_url("**/jobs?lane=mail")
    await page.get_by_text("Saved views").click()
    await page.get_by_role("button", name="Forget the view").click()
    await expect(page.locator(".views li")).to_have_count(0)


async def test_a_bulk_action_is_undone_while_it_waits(
    page: Page, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "UNDO_SECONDS", 60.0)
    spec = {"destination": {"type": "worker"}, "delay_seconds": 3600, "lane": "mail"}
    job_id = (await call(api, "/jobs", spec))["job_id"]
    await page.goto(api.url + "/jobs/bulk/cancel?lane=mail&dry=1")
    await page.get_by_label("Reason").fill("not needed")
    await page.get_by_role("button", name="Cancel these (1)").click()
    await expect(page.locator("[data-countdown]")).to_be_visible()
    await page.get_by_role("button", name="Undo").click()
    await expect(page.locator(".notice")).to_contain_text("Undone: nothing was changed.")
    assert (await api.call("GET", f"/jobs/{job_id}")).body["status"] == "PENDING"


async def test_a_chart_has_its_numbers_in_a_table(page: Page, api: Api) -> None:
    await call(api, "/accounts", {"account_id": "alice"})
    for amount in (700, 1300):
        body = {"amount": amount, "reason": "opening"}
        await call(api, "/accounts/alice/adjustments", body)
    await page.goto(api.url + "/accounts/alice")
    table = page.locator('[data-table="balance"]')
    await table.get_by_text("As a table").click()
    await expect(table.locator("thead tr")).to_have_count(1)
    await expect(table.locator("tbody td.number")).to_have_text(["2,000", "700"])
