"""Every problem of both lists, made for real or by rows: seen with its cause, and its button works.

One tenant has them all at once, so that one page of a real browser shows them; what helps is then
done as its link says, and the same page, which lives, no longer shows what is over.
"""

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import msgspec
import pytest
from playwright.async_api import Page, expect

from conftest import Api
from postdate.delivery.breaker import FAILURES, Health
from postdate.intake.tenant.tenant import Tenants
from postdate.node import initial_key as first
from postdate.store.operate import vital as vital_store
from postdate.store.operate.overview import LaggingSubscription
from postdate.views.foresight import money
from postdate.views.monitor import overview
from postdate.views.monitor.overdue import Overdue
from postdate.views.monitor.overview import LaneBacklog, Overview, OverviewViews
from postdate.worker.trouble import TroubleReporter
from support.plain_browser import Browser
from support.real_browser import make, needs_chromium, sign_in

pytestmark = needs_chromium
expect.set_options(timeout=30_000)

WORKER = {"type": "worker"}
HOOK = {"type": "webhook", "url": "https://hook.example/"}
LONG_AGO = "UPDATE timer SET due_at = clock() - interval '2 minutes' WHERE subject = $1::uuid"
READ = """rows => rows.map(row => [row.className, row.textContent.replace(/\\s+/g, " "),
  row.querySelector("a").textContent, row.querySelector("a").getAttribute("href")])"""

Cure = Callable[[Browser, str], Awaitable[Any]]
Problem = tuple[str, str, str, Cure, bool]
"""Severity and text, cause, name of the link, what is done there, and whether that ends it."""


@pytest.fixture
async def browser(api: Api, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Browser]:
    """A visitor of an overview that looks each time it is asked."""
    for module, name in (
        (overview, "REMEMBER_SECONDS"),
        (overview, "REMEMBER_SLOW_SECONDS"),
        (money, "SOON_SECONDS"),
    ):
        monkeypatch.setattr(module, name, 0.0)
    async with Browser(api) as opened:
        await opened.sign_in()
        yield opened


async def run(api: Api, statement: str, *values: object) -> None:
    await api.node.database.writer.execute(statement, *values)


def shows(text: str) -> Cure:
    """See on the page behind the link what it is about."""

    async def cure(browser: Browser, link: str) -> None:
        assert text in (await browser.get(link)).text, link

    return cure


async def seen(page: Page, box: str) -> list[list[str]]:
    found: list[list[str]] = await page.locator(f"{box} li").evaluate_all(READ)
    return found


def row_of(rows: list[list[str]], problem: Problem) -> list[str]:
    """Find a problem among the rows of the page, with its cause and its link."""
    words, cause, link, _, _ = problem
    severity, _, text = words.partition(" ")
    (row,) = [each for each in rows if each[0] == severity and text in each[1]]
    assert cause in row[1], row
    assert row[2] == link, row
    return row


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
        await make(api, "/destinations", {"name": name, "url": f"https://{name}.example/hook"})
    await make(api, "/destinations/shop/disable", {"reason": "moved away"})
    spec = {"destination": {"type": "worker"}, "delay_seconds": 3600, "lane": "mail"}
    await make(api, "/jobs", spec)
    await make(api, "/lanes/mail/pause", {"note": "deploy"})
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


@pytest.mark.parametrize(
    ("path", "body", "text", "link"),
    [
        ("/kill-switch", {"note": "fraud"}, "The kill switch is on", "Release it"),
        ("/freeze", {"note": "audit", "until": "2035-01-01T00:00:00Z"},
         "A freeze window is open until 2035-01-01 00:00:00 UTC", "End it"),
    ],
)  # fmt: skip
async def test_a_halt_is_a_note_with_the_button_that_ends_it(
    page: Page, api: Api, path: str, body: Any, text: str, link: str
) -> None:
    await api.call("PUT", path, body)
    await api.node.refresh_settings()
    await page.goto(api.url + "/")
    row = page.locator("#problems li.note", has_text=text)
    await expect(row).to_contain_text(f"{body['note']}.")
    await row.get_by_role("link", name=link).click()
    await page.locator("form.card button").first.click()
    await expect(page.locator(".notice")).to_be_visible()
    await api.node.refresh_settings()
    assert (await api.call("GET", "/halts")).body["halts"] == []


async def cluster_troubles(api: Api) -> list[Problem]:
    for name in ("round", "prove", "reconcile", "verify"):
        async with api.node.database.write() as connection:
            await vital_store.audited(connection, name, 1.0, 2)
    for number in range(11):
        await run(
            api,
            "INSERT INTO node (node_id, name, roles, version, seen_at) "
            "VALUES ($1, $2, '{worker}', '1', clock() - interval '1 hour')",
            UUID(int=100 + number),
            f"lost-{number:02}",
        )
    api.node.overdue._meter.now([Overdue("event", (3, -1), "an event", 25.0, None)])
    other_hands, role = "changed by other hands", "all of them have ended or are cut off"
    again = "Run it again for details"
    return [
        ("money round of proofs reported 2 findings", other_hands, again, shows("Accounts"), False),
        ("money postdate prove reported 2", other_hands, again, shows("Accounts"), False),
        ("money postdate reconcile reported 2", other_hands, again, shows("Payments"), False),
        ("money postdate events verify reported", other_hands, again, shows("Events"), False),
        ("stopped No node with the role worker", role, "See the nodes", shows("lost-00"), False),
        ("money No node with the role settlement", role, "See the nodes", shows("Nodes"), False),
        ("stopped No node with the role publisher", role, "See the nodes", shows("Nodes"), False),
        ("failing Node lost-00 is silent", "without signing off", "See its last calls",
         shows("lost-00"), False),
        ("failing 1 more node silent", "", "See them", shows("lost-10"), False),
        ("stopped Overdue: unsealed events", "No stage has touched it", "See what is alive",
         shows("Nodes"), False),
    ]  # fmt: skip


async def test_every_problem_of_the_cluster_is_shown_to_its_operators(
    page: Page, api: Api, browser: Browser
) -> None:
    tenants = Tenants(api.node.database)
    await first.ensure_tenant(tenants)
    operator = (await tenants.issue(first.TENANT, ["admin"])).key
    try:
        problems = await cluster_troubles(api)
        await sign_in(page, api, operator)
        await browser.sign_in(operator)
        await page.goto(api.url + "/")
        rows = await seen(page, "#cluster-problems")
        for problem in problems:
            await problem[3](browser, row_of(rows, problem)[3])
    finally:
        api.node.overdue._meter.now([])
        await run(api, "DELETE FROM node WHERE name LIKE 'lost-%'")
        for name in ("round", "prove", "reconcile", "verify"):
            async with api.node.database.write() as connection:
                await vital_store.audited(connection, name, 1.0, 0)
