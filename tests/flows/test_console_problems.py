"""Every problem of both lists, made for real or by rows: seen with its cause, and its button works.

One tenant has them all at once, so that one page of a real browser shows them; what helps is then
done as its link says, and the same page, which lives, no longer shows what is over.
"""

import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from playwright.async_api import Page, expect

from conftest import INTERNAL_TOKEN, Api
from postdate.delivery.breaker import FAILURES, Health
from postdate.foresight.view import money
from postdate.monitor.store import vital as vital_store
from postdate.monitor.view import overview
from postdate.monitor.view.overdue import Overdue
from postdate.node import initial_key as first
from postdate.tenant.change.tenant import Tenants
from postdate.worker.trouble import TroubleReporter
from support.real_browser import follow, follow_to, make, needs_chromium, sign_in

pytestmark = [needs_chromium, pytest.mark.own_database("its loops work for every tenant")]
expect.set_options(timeout=30_000)

WORKER = {"type": "worker"}
HOOK = {"type": "webhook", "url": "https://hook.example/"}
LONG_AGO = "UPDATE timer SET due_at = clock() - interval '2 minutes' WHERE subject = $1::uuid"
READ = """rows => rows.map(row => [row.className, row.textContent.replace(/\\s+/g, " "),
  row.querySelector("a").textContent, row.querySelector("a").getAttribute("href")])"""

Cure = Callable[[Page], Awaitable[Any]]
Problem = tuple[str, str, str, Cure, bool]
"""Severity and text, cause, name of the link, what is done behind it, and whether that ends it."""


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overview, "REMEMBER_SECONDS", 0.0)
    monkeypatch.setattr(overview, "REMEMBER_SLOW_SECONDS", 0.0)


@pytest.fixture
async def tab(page: Page, monkeypatch: pytest.MonkeyPatch) -> Page:
    """Another tab, without scripts and styles: pages are quick there, links and forms the same.

    The overview looks each time it is asked.
    """
    for module, name in (
        (overview, "REMEMBER_SECONDS"),
        (overview, "REMEMBER_SLOW_SECONDS"),
        (money, "SOON_SECONDS"),
    ):
        monkeypatch.setattr(module, name, 0.0)
    opened = await page.context.new_page()
    await opened.route("**/assets/*", lambda route: route.abort())
    return opened


async def run(api: Api, statement: str, *values: object) -> None:
    await api.node.database.writer.execute(statement, *values)


async def pay(api: Api, **order: object) -> str:
    wanted = {"from_account_id": "alice", "to_account_id": "bob", "amount": 10} | order
    made = await make(api, "/payments/schedule", {"delay_seconds": 3600, **wanted})
    return str(made["payment_id"])


async def job(api: Api, lane: str, **spec: object) -> str:
    wanted = {"destination": WORKER, "lane": lane, "retry": {"max_attempts": 1}} | spec
    return str((await make(api, "/jobs", wanted))["job_id"])


async def claimed(api: Api, lane: str, **spec: object) -> tuple[str, int]:
    await job(api, lane, **spec)
    (lease,) = (await make(api, f"/lanes/{lane}/claim", {"max": 1, "wait_seconds": 5}))["leases"]
    return lease["job_id"], lease["token"]


def pressed(thing: str = "", verb: str = "", **fields: str) -> Cure:
    """Press the button: that of the link itself, or one of the thing that the list behind shows."""

    async def cure(tab: Page) -> None:
        button = tab.locator(f'a[href^="{thing}/{verb}"]').first
        if verb and not await button.count():
            await follow_to(tab, thing)
        if verb:
            await follow(tab, button)
        for name, text in fields.items():
            await tab.locator(f'main [name="{name}"]').fill(text)
        await tab.locator("main form.card button").first.click()
        await expect(tab.locator(".notice")).to_be_visible()

    return cure


def shows(text: str) -> Cure:
    """See on the page behind the link what it is about."""

    async def cure(tab: Page) -> None:
        await expect(tab.locator("main")).to_contain_text(text)

    return cure


def leads_to(thing: str) -> Cure:
    """Follow the link to the thing that the list behind shows."""

    async def cure(tab: Page) -> None:
        await follow_to(tab, thing)
        await expect(tab.locator("h1")).to_contain_text(thing.rpartition("/")[2])

    return cure


async def press(tab: Page, api: Api, box: str, problem: Problem) -> None:
    """Press the link of a problem on the overview, and do what is done behind it."""
    words, _, link, cure, _ = problem
    severity, _, text = words.partition(" ")
    await tab.goto(api.url + "/", wait_until="domcontentloaded")
    row = tab.locator(f"{box} li.{severity}:not(.group)", has_text=text)
    for group in await tab.locator(f"{box} li.group summary", has_text="See them").all():
        await group.click()
    await follow(tab, row.get_by_role("link", name=link, exact=True))
    await cure(tab)


async def money_problems(api: Api) -> list[Problem]:
    for name in ("alice", "bob", "carol"):
        await make(api, "/accounts", {"account_id": name})
    await make(api, "/accounts/alice/adjustments", {"amount": 1000, "reason": "opening"})
    parked, late = await pay(api), await pay(api)
    park = "UPDATE timer SET ready_at = due_at, due_at = 'infinity' WHERE subject = $1::uuid"
    await run(api, park, UUID(parked))
    await run(api, LONG_AGO, UUID(late))
    await api.call("PUT", "/settings/payment.approval_above", {"value": 90})
    await api.node.refresh_settings()
    asks = replace(api, key=await api.new_key("payments:write"))
    unapproved = await pay(asks, amount=91)
    await run(api, LONG_AGO, UUID(unapproved))
    poor = {"from_account_id": "carol", "funding": "at_execution", "amount": 20}
    short = await pay(api, **poor)
    failed = await pay(api, **poor)
    await run(api, LONG_AGO, UUID(failed))
    executed = await api.call(
        "POST",
        f"/internal/payments/{failed}/execute",
        {"execution_id": "by-hand"},
        headers={"X-Internal-Auth": INTERNAL_TOKEN},
    )
    assert executed.body["status"] == "FAILED", executed.body
    return [
        (
            "money 1 payment could not be settled",
            "for a reason that does not go away by itself",
            "Decide",
            pressed(f"/payments/{parked}", "cancel"),
            True,
        ),
        (
            "money 1 payment due and not settled",
            "No settlement node is alive",
            "See them",
            pressed(f"/payments/{late}", "cancel"),
            True,
        ),
        (
            "money 1 payment past due and not yet approved",
            "They were neither approved nor refused",
            "Approve or refuse",
            pressed(f"/payments/{unapproved}", "refuse", note="unknown"),
            True,
        ),
        (
            "money 1 payment will fail within the warning time",
            "from carol to bob: insufficient funds",
            "See which",
            pressed(f"/payments/{short}", "cancel"),
            True,
        ),
        (
            "failing 1 payment accepted in the last 24 h failed",
            "most often funds are missing",
            "See them",
            leads_to(f"/payments/{failed}"),
            False,
        ),
    ]


async def work_problems(api: Api) -> list[Problem]:
    waiting, pushed = await job(api, "slow"), await job(api, "calls", destination=HOOK)
    for one in (waiting, pushed):
        await run(api, LONG_AGO, UUID(one))
    doubtful, token = await claimed(api, "odd", retry={"max_attempts": 1, "on_unknown": "hold"})
    await make(api, f"/leases/{doubtful}/fail", {"token": token, "error": "x", "unknown": True})
    dead, token = await claimed(api, "dead")
    await make(api, f"/leases/{dead}/fail", {"token": token, "error": "no such order"})
    await job(api, "mail", delay_seconds=3600)
    await make(api, "/lanes/mail/pause", {"note": "deploy"})
    await job(api, "half", delay_seconds=3600)
    pause = {"changes": [{"type": "pause_lane", "lane": "half"}]}
    half = (await make(api, "/change-sets", pause))["change_set_id"]
    await run(
        api,
        "UPDATE change_set SET status = 'APPLYING', held_until = clock() - interval '1 second' "
        "WHERE change_set_id = $1::uuid",
        UUID(half),
    )
    rule = {"every_seconds": 3600, "template": {"job": {"destination": WORKER}}}
    aside = (await make(api, "/schedules", rule))["schedule_id"]
    await run(
        api,
        "UPDATE schedule SET set_aside_at = clock(), set_aside_error = 'OverflowError: far' "
        "WHERE schedule_id = $1::uuid",
        UUID(aside),
    )
    return [
        ("stopped Lane slow is late: 1 job due", "No worker claims", "See them",
         pressed(f"/jobs/{waiting}", "cancel"), True),
        ("stopped Lane calls is late: 1 job due", "No worker node is alive", "See them",
         pressed(f"/jobs/{pushed}", "cancel"), True),
        ("stopped 1 job of lane odd with unknown outcome", "not known whether they ran", "Resolve",
         pressed(f"/jobs/{doubtful}", "resolve-completed"), True),
        ("failing 1 job accepted in the last 24 h failed permanently", "Every attempt failed",
         "Redrive", pressed(f"/jobs/{dead}", "redrive"), False),
        ("note Lane mail is paused", "deploy.", "Resume", pressed(), True),
        ("stopped was interrupted while it was applied", "0 of 1 changes are applied",
         "Continue or undo", pressed(f"/change-sets/{half}", "apply"), True),
        ("stopped 1 schedule set aside because of an error", "the error that ended its last run",
         "See the errors", pressed(f"/schedules/{aside}", "resume"), True),
    ]  # fmt: skip


async def delivery_problems(api: Api) -> list[Problem]:
    for name in ("shop", "crm"):
        await make(api, "/destinations", {"name": name, "url": f"https://{name}.example/hook"})
    await make(api, "/destinations/shop/disable", {"reason": "moved away"})
    tenant_id = await api.node.database.writer.fetchval(
        "SELECT tenant_id FROM tenant WHERE name = $1", api.tenant
    )
    now, breakers = time.monotonic(), api.node.outgoing.webhook.breakers
    for label in ("crm", *(f"https://{number}.example" for number in range(11))):
        for _ in range(FAILURES):
            breakers.record((tenant_id, label), now, now, Health.DOWN, 0.0, "http_503: no")
    await TroubleReporter(api.node.database, api.node.node_id, api.node._reports).run_once()
    failing = (await make(api, "/subscriptions", {"destination": HOOK}))["subscription_id"]
    await run(
        api,
        "UPDATE subscription SET failures = 3, failing_since = clock(), error = 'http_500' "
        "WHERE subscription_id = $1::uuid",
        UUID(failing),
    )
    other = {"destination": {"type": "webhook", "url": "https://quiet.example"}}
    quiet = (await make(api, "/subscriptions", other))["subscription_id"]
    paused = {"paused": True, "note": "holidays"}
    assert (await api.call("PATCH", f"/subscriptions/{quiet}", paused)).status == 200
    api.node.overdue._meter.now([Overdue("payment", (3, -1), "a payment", 25.0, tenant_id)])
    await api.node.refresh_settings()
    return [
        ("failing Destination crm is failing", "It last answered: http_503: no", "See its answers",
         shows("Failing since"), False),
        ("failing 2 more destinations failing", "", "See them",
         pressed("/destinations/crm", "disable", reason="it is down"), False),
        ("stopped Destination shop is disabled", "moved away.", "See why and enable",
         pressed("/destinations/shop", "enable"), True),
        ("failing Subscription to https://hook.example/", "Delivery failed 3 times: http_500",
         "See it", pressed(f"/subscriptions/{failing}", "pause", note="look into it"), False),
        ("note Subscription to https://quiet.example is paused", "holidays.", "Resume",
         pressed(), True),
        ("stopped Overdue: due payments", "No stage has touched it", "See what is alive",
         shows("Lanes"), False),
    ]  # fmt: skip


async def seen(page: Page, box: str) -> list[list[str]]:
    found: list[list[str]] = await page.locator(f"{box} li:not(.group)").evaluate_all(READ)
    return found


def row_of(rows: list[list[str]], problem: Problem) -> list[str]:
    """Find a problem among the rows of the page, with its cause and its link."""
    words, cause, link, _, _ = problem
    severity, _, text = words.partition(" ")
    (row,) = [each for each in rows if each[0] == severity and text in each[1]]
    assert cause in row[1], row
    assert row[2] == link, row
    return row


async def test_every_problem_of_a_tenant_has_its_cause_and_a_button_that_works(
    page: Page, tab: Page, api: Api
) -> None:
    problems = [
        *await money_problems(api), *await work_problems(api), *await delivery_problems(api)
    ]  # fmt: skip
    await page.goto(api.url + "/")
    rows = await seen(page, "#problems")
    for problem in problems:
        row_of(rows, problem)
    ranks = [{"money": 0, "note": 2}.get(row[0], 1) for row in rows]
    assert ranks == sorted(ranks)
    for problem in problems:
        await press(tab, api, "#problems", problem)
    api.node.overdue._meter.now([])
    for words, *_, ends in problems:
        text = words.partition(" ")[2]
        gone = page.locator("#problems li", has_text=text)
        if ends:
            await expect(gone, text).to_have_count(0)


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
    other_hands, role = (
        "Rows of the books were changed",
        "all have stopped or cannot reach the database",
    )
    again = "Run it again for details"
    return [
        ("money round of proofs reported 2 findings", other_hands, again, shows("Accounts"), False),
        ("money postdate prove reported 2", other_hands, again, shows("Accounts"), False),
        ("money postdate reconcile reported 2", other_hands, again, shows("Payments"), False),
        ("money postdate events verify reported", other_hands, again, shows("Events"), False),
        ("stopped No node with the role worker", role, "See the nodes", shows("lost-00"), False),
        ("money No node with the role settlement", role, "See the nodes", shows("Nodes"), False),
        ("stopped No node with the role publisher", role, "See the nodes", shows("Nodes"), False),
        ("failing Node lost-00 has stopped reporting", "without signing off", "See its last calls",
         shows("lost-00"), False),
        ("failing 1 more node silent", "", "See them", shows("lost-10"), False),
        ("stopped Overdue: unsealed events", "No stage has touched it", "See what is alive",
         shows("Nodes"), False),
    ]  # fmt: skip


async def test_every_problem_of_the_cluster_is_shown_to_its_operators(
    page: Page, tab: Page, api: Api
) -> None:
    tenants = Tenants(api.node.database)
    await first.ensure_tenant(tenants)
    operator = (await tenants.issue(first.TENANT, ["admin"])).key
    try:
        problems = await cluster_troubles(api)
        await sign_in(page, api, operator)
        await page.goto(api.url + "/")
        rows = await seen(page, "#cluster-problems")
        for problem in problems:
            row_of(rows, problem)
            await press(tab, api, "#cluster-problems", problem)
    finally:
        api.node.overdue._meter.now([])
        await run(api, "DELETE FROM node WHERE name LIKE 'lost-%'")
        for name in ("round", "prove", "reconcile", "verify"):
            async with api.node.database.write() as connection:
                await vital_store.audited(connection, name, 1.0, 0)
