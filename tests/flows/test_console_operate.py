"""Pages of destinations and nodes: their latest calls, over all nodes; actors by name."""

import time
from collections.abc import AsyncIterator
from uuid import UUID, uuid4

import pytest

from conftest import Api
from postdate.delivery.breaker import FAILURES, Health
from postdate.delivery.call_log import REMEMBERED, CallLog
from postdate.monitor.view import overview
from postdate.node import initial_key as first
from postdate.tenant.change.tenant import Tenants
from postdate.worker.call_report import REPORT_SECONDS, CallReporter
from postdate.worker.trouble import TroubleReporter
from support.event import seal_all
from support.plain_browser import Browser

pytestmark = pytest.mark.own_database("its loops work for every tenant")


@pytest.fixture
async def browser(api: Api) -> AsyncIterator[Browser]:
    async with Browser(api) as opened:
        await opened.sign_in()
        yield opened


@pytest.fixture
async def tenant_id(api: Api) -> int:
    found = await api.node.database.writer.fetchval(
        "SELECT tenant_id FROM tenant WHERE name = $1", api.tenant
    )
    return int(found)


def call(api: Api, tenant_id: int, name: str, seconds: float, health: Health, answer: str) -> None:
    now = time.monotonic()
    breakers = api.node.outgoing.webhook.breakers
    breakers.record((tenant_id, name), now - seconds, now, health, 0.0, answer)


async def report(api: Api, node_id: UUID | None = None) -> None:
    teller = CallReporter(api.node.database, node_id or api.node.node_id, api.node._calls)
    await teller.run_once()


async def operator_key(api: Api) -> str:
    tenants = Tenants(api.node.database)
    await first.ensure_tenant(tenants)
    return (await tenants.issue(first.TENANT, ["admin"])).key


async def test_a_destination_shows_its_latest_calls_over_all_nodes(
    browser: Browser, tenant_id: int
) -> None:
    api = browser.api
    body = {"name": "shop", "url": "https://shop.example/hook"}
    assert (await api.call("POST", "/destinations", body)).status == 201
    assert "No call within a day." in (await browser.get("/destinations/shop")).text
    for _ in range(3):
        call(api, tenant_id, "shop", 0.2, Health.UP, "ok")
    call(api, tenant_id, "shop", 1.5, Health.DOWN, "http_503: <b>busy</b>")
    call(api, tenant_id, "shop", 9.0, Health.SILENT, "")
    await report(api)
    await report(api, uuid4())
    text = (await browser.get("/destinations/shop")).text
    assert "75.0 %" in text
    assert "of 8 calls succeeded" in text
    assert "1.5 s" in text
    assert "http_503: &lt;b&gt;busy" in text
    listed = (await browser.get("/destinations")).text
    assert 'href="/destinations/shop"' in listed
    assert "75.0 %" in listed
    assert (await browser.get("/destinations/none")).status == 404
    async with Browser(api) as other:
        stranger = await api.new_key("payments:read")
        await other.sign_in(stranger)
        assert (await other.get("/destinations/shop")).status == 403


async def test_a_destination_that_fails_is_not_told_to_be_uncalled(
    browser: Browser, tenant_id: int
) -> None:
    api = browser.api
    body = {"name": "shop", "url": "https://shop.example/hook"}
    assert (await api.call("POST", "/destinations", body)).status == 201
    for _ in range(FAILURES):
        call(api, tenant_id, "shop", 0.2, Health.DOWN, "http_503: no")
    await TroubleReporter(api.node.database, api.node.node_id, api.node._reports).run_once()
    await api.node.refresh_settings()
    text = (await browser.get("/destinations/shop")).text
    assert "No node has reported its calls yet; each does every 10 s." in text
    assert "No call within a day." not in text
    assert REPORT_SECONDS == 10


async def test_a_destination_that_refuses_everything_is_failing_wherever_it_is_shown(
    browser: Browser, tenant_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It answers, so its breaker stays closed; but ACTIVE would not be true."""
    monkeypatch.setattr(overview, "REMEMBER_SECONDS", 0.0)
    monkeypatch.setattr(overview, "REMEMBER_SLOW_SECONDS", 0.0)
    api = browser.api
    body = {"name": "shop", "url": "https://shop.example/hook"}
    assert (await api.call("POST", "/destinations", body)).status == 201

    async def shown() -> tuple[str, bool, bool, bool]:
        one = (await api.call("GET", "/destinations/shop")).body
        [listed] = (await api.call("GET", "/destinations")).body["destinations"]
        assert (listed["status"], listed["failing_since"]) == (one["status"], one["failing_since"])
        assert (one["failing_since"] is None) == (one["status"] == "ACTIVE")
        pages = [(await browser.get(path)).text for path in ("/destinations/shop", "/destinations")]
        problems = (await browser.get("/")).text
        named = "Destination shop is failing." in problems
        return one["status"], *("FAILING" in page for page in pages), named

    assert await shown() == ("ACTIVE", False, False, False)
    now = time.monotonic()
    record = api.node.outgoing.webhook.breakers.record
    key = (tenant_id, "shop")
    for _ in range(3):
        record(key, now, time.monotonic(), Health.UP, 0.0, "http_404: no such page", failed=True)
    await report(api)
    assert await shown() == ("FAILING", True, True, True)
    text = (await browser.get("/destinations/shop")).text
    assert "None of its latest calls succeeded" in text
    assert "http_404: no such page" in (await browser.get("/destinations")).text
    call(api, tenant_id, "shop", 0.1, Health.UP, "ok")
    await report(api)
    assert await shown() == ("ACTIVE", False, False, False)


async def test_a_destination_at_less_than_nine_of_ten_is_degraded(
    browser: Browser, tenant_id: int
) -> None:
    api = browser.api
    body = {"name": "crm", "url": "https://crm.example/hook"}
    assert (await api.call("POST", "/destinations", body)).status == 201
    record, now = api.node.outgoing.webhook.breakers.record, time.monotonic()
    key = (tenant_id, "crm")

    async def answered(number: int) -> str:
        code, failed = ("http_422: no", True) if number % 5 == 0 else ("ok", False)
        record(key, now, time.monotonic(), Health.UP, 0.0, code, failed=failed)
        await report(api)
        return str((await api.call("GET", "/destinations/crm")).body["status"])

    few = [await answered(number) for number in range(1, 10)]
    assert set(few) == {"ACTIVE"}, "nine answers say too little"
    assert await answered(10) == "DEGRADED"
    text = (await browser.get("/destinations/crm")).text
    assert "8 of the last 10 answers are successes." in text
    assert "badge degraded" in (await browser.get("/destinations")).text


async def test_a_changed_destination_is_not_failing_until_it_fails_again(
    browser: Browser, tenant_id: int
) -> None:
    api = browser.api
    body = {"name": "shop", "url": "https://shop.example/hook"}
    assert (await api.call("POST", "/destinations", body)).status == 201
    call(api, tenant_id, "shop", 0.1, Health.DOWN, "http_503: no")
    await report(api)
    assert (await api.call("GET", "/destinations/shop")).body["status"] == "FAILING"
    changed = await api.call("PATCH", "/destinations/shop", {"url": "https://shop.example/new"})
    assert changed.body["status"] == "ACTIVE"
    off = await api.call("POST", "/destinations/shop/disable", {"reason": "moving"})
    assert off.body["status"] == "DISABLED"


async def test_no_number_of_others_hides_a_destination_that_serves_nothing(
    browser: Browser, tenant_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overview, "MAX_DOUBTED", 2)
    api = browser.api
    for name in ("a0", "a1", "a2", "a3", "zoo"):
        body = {"name": name, "url": "https://shop.example/hook"}
        assert (await api.call("POST", "/destinations", body)).status == 201
    for number in range(4):
        call(api, tenant_id, f"a{number}", 0.1, Health.UP, "ok")
        call(api, tenant_id, f"a{number}", 0.1, Health.DOWN, "http_503: once")
    call(api, tenant_id, "zoo", 0.1, Health.DOWN, "http_503: no")
    await report(api)
    problems = (await browser.get("/")).text
    assert "Destination zoo is failing." in problems
    assert "Destination a0 is failing." not in problems


async def test_a_deleted_destination_is_no_problem_any_more(
    browser: Browser, tenant_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overview, "REMEMBER_SECONDS", 0.0)
    monkeypatch.setattr(overview, "REMEMBER_SLOW_SECONDS", 0.0)
    api, bare = browser.api, "https://bare.example/hook"
    body = {"name": "shop", "url": "https://shop.example/hook"}
    assert (await api.call("POST", "/destinations", body)).status == 201
    for target in ("shop", bare):
        call(api, tenant_id, target, 0.1, Health.DOWN, "http_503: no")
    await report(api)
    assert "Destination shop is failing." in (await browser.get("/")).text
    assert (await api.call("DELETE", "/destinations/shop")).status < 300
    problems = (await browser.get("/")).text
    assert "Destination shop is failing." not in problems
    assert f"Destination {bare} is failing." in problems


async def test_what_has_not_changed_is_not_reported_again(api: Api, tenant_id: int) -> None:
    teller = CallReporter(api.node.database, uuid4(), api.node._calls)
    call(api, tenant_id, "quiet", 0.1, Health.UP, "ok")
    await teller.run_once()
    changed = "UPDATE destination_call SET calls = 77, successes = 77 WHERE tenant_id = $1"
    await api.node.database.writer.execute(changed, tenant_id)
    await teller.run_once()
    read = "SELECT calls FROM destination_call WHERE tenant_id = $1 AND target = 'quiet'"
    assert await api.node.database.writer.fetchval(read, tenant_id) == 77
    call(api, tenant_id, "quiet", 0.1, Health.UP, "ok")
    await teller.run_once()
    assert await api.node.database.writer.fetchval(read, tenant_id) == 2


async def test_the_log_forgets_what_was_called_longest_ago() -> None:
    log = CallLog()
    for number in range(REMEMBERED + 1):
        log.record((1, f"d{number}"), float(number), 0.1, succeeded=True, answer="ok")
    found = log.reports(1000.0)
    assert len(found) == REMEMBERED
    assert (1, "d0") not in found
    latest = found[1, f"d{REMEMBERED}"]
    assert (latest.calls, latest.successes, latest.p50_ms) == (1, 1, 100)


async def test_nodes_are_shown_to_operators_alone(browser: Browser, tenant_id: int) -> None:
    api = browser.api
    assert (await browser.get("/nodes")).status == 403
    assert 'href="/nodes"' not in (await browser.get("/jobs")).text
    await api.node.heartbeat.run_once()
    call(api, tenant_id, "shop", 0.2, Health.UP, "ok")
    await report(api)
    await browser.sign_in(await operator_key(api))
    listed = (await browser.get("/nodes")).text
    assert f'href="/nodes/{api.node.node_id}"' in listed
    assert "No node with the role worker is alive." in listed
    page = (await browser.get(f"/nodes/{api.node.node_id}")).text
    assert "LIVE" in page
    assert "shop" in page
    assert (await browser.get(f"/nodes/{uuid4()}")).status == 404
    assert "The cluster" in (await browser.get("/")).text


async def test_a_node_that_fell_silent_is_a_problem(browser: Browser) -> None:
    api = browser.api
    gone = uuid4()
    await api.node.database.writer.execute(
        "INSERT INTO node (node_id, name, roles, version, seen_at) "
        "VALUES ($1, 'lost-node', '{worker}', '1', clock() - interval '1 hour')",
        gone,
    )
    try:
        await browser.sign_in(await operator_key(api))
        assert "Node lost-node has stopped reporting." in (await browser.get("/nodes")).text
        assert "it ended without signing off" in (await browser.get(f"/nodes/{gone}")).text
    finally:
        await api.node.database.writer.execute("DELETE FROM node WHERE node_id = $1", gone)


async def test_actors_are_called_by_the_names_of_their_keys(browser: Browser) -> None:
    api = browser.api
    made = await api.call("POST", "/keys", {"scopes": ["jobs:write"], "note": "night shift"})
    key = made.body["key"]
    spec = {"destination": {"type": "worker"}, "delay_seconds": 3600, "lane": "mail"}
    job_id = (await api.call("POST", "/jobs", spec, key=key)).body["job_id"]
    await api.call("POST", "/lanes/mail/pause", {"note": "deploy"}, key=key)
    await seal_all(api.node.database)
    for path in (f"/jobs/{job_id}", "/events", "/lanes", "/audit"):
        assert "night shift" in (await browser.get(path)).text, path
    narrow = await api.call(
        "POST", "/keys", {"scopes": ["jobs:read", "payments:read"], "accounts": ["alice"]}
    )
    await browser.sign_in(narrow.body["key"])
    assert "night shift" not in (await browser.get(f"/jobs/{job_id}")).text
