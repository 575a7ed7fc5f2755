"""A secret key that nodes lack: both problem lists say so, and the page of a job that waits."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from playwright.async_api import BrowserContext, Page, expect

from conftest import SECRET_KEY, Api
from flows.test_console_problems import job, run, tab
from postdate.monitor.view import overview
from postdate.node import initial_key as first
from postdate.node import worker as worker_stage
from postdate.node.node import Node
from postdate.node.settings import ProcessSettings
from postdate.secret.secret import key_id as key_id_of
from postdate.secret.secret import parse_key
from postdate.tenant.change.tenant import Tenants
from support.real_browser import follow, make, needs_chromium, sign_in
from support.receiver import Receiver

pytestmark = [needs_chromium, pytest.mark.own_database("its loops work for every tenant")]
expect.set_options(timeout=30_000)
__all__ = ["tab"]


@asynccontextmanager
async def at_work(api: Api, settings: ProcessSettings) -> AsyncIterator[None]:
    """Run a worker node of the same database until the end, then sign it off."""
    node = Node(settings=settings, database=api.node.database, roles=["worker"])
    await node.refresh_settings()
    await node.heartbeat.run_once()
    loops = [*worker_stage.loops(node), *node.housekeeping()]
    running = [asyncio.create_task(loop.run()) for loop in loops]
    try:
        yield
    finally:
        for loop in loops:
            loop.stop()
        await asyncio.gather(*running)
        await run(api, "DELETE FROM node WHERE node_id = $1", node.node_id)
        await node.close()


@pytest.fixture(autouse=True)
def seen_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read what pages remember for half a minute each time: signing in has already read it once."""
    monkeypatch.setattr(overview, "REMEMBER_SLOW_SECONDS", 0.0)


async def opened(page: Page) -> BrowserContext:
    """Open another context, which is signed in as somebody else."""
    browser = page.context.browser
    assert browser
    return await browser.new_context()


async def test_a_secret_key_that_workers_lack_is_a_problem_of_both_lists(
    page: Page, tab: Page, api: Api, receiver: Receiver
) -> None:
    tenants = Tenants(api.node.database)
    await first.ensure_tenant(tenants)
    operator = (await tenants.issue(first.TENANT, ["admin"])).key
    await make(api, "/destinations", {"name": "crm", "url": receiver.url("/crm")})
    key = f"{key_id_of(parse_key(SECRET_KEY)):08x}"
    other = ProcessSettings(secret_key="ab" * 32, allow_private_targets="127.0.0.0/8")
    own = ProcessSettings(secret_key=SECRET_KEY, allow_private_targets="127.0.0.0/8")
    async with at_work(api, other):
        wanted = {"type": "webhook", "name": "crm"}
        waiting = await job(api, "calls", destination=wanted)
        await page.goto(api.url + "/")
        none = page.locator("#problems li.stopped", has_text=f"has the secret key {key}.")
        await expect(none).to_contain_text("It opens the secrets of crm")
        await expect(none).to_contain_text("fail when they expire")
        await expect(none).to_contain_text("Since")
        await expect(none).to_contain_text("Runbook: secret-key")
        for status in ("PENDING", "READY"):  # put off again and again
            await tab.goto(f"{api.url}/jobs/{waiting}", wait_until="domcontentloaded")
            while status not in (await tab.locator("h1 + .badge").text_content() or ""):
                await tab.reload(wait_until="domcontentloaded")
            why = f"No node with the role worker has had the secret key {key}"
            await expect(tab.locator("p.why")).to_contain_text(why)
        assert receiver.arrivals == []
        desk = await (await opened(page)).new_page()
        await sign_in(desk, api, operator)
        await desk.goto(api.url + "/")
        alone = desk.locator("#cluster-problems li.stopped", has_text=f"lacks the secret key {key}")
        await expect(alone).to_contain_text("No other node of its roles has the key")
        await follow(desk, alone.get_by_role("link", name="See the node", exact=True))
        await expect(desk.locator("p.why")).to_contain_text("give it the same POSTDATE_SECRET_KEY")
        async with at_work(api, own):
            some = page.locator("#problems li.failing", has_text="1 of 2 nodes with the role")
            await expect(some).to_contain_text("left to the others")
            await expect(none).to_have_count(0)
            await desk.goto(api.url + "/")
            rest = desk.locator("#cluster-problems li.failing", has_text="lacks the secret key")
            await expect(rest).to_contain_text("It leaves what needs the key to the others")
            await tab.reload(wait_until="domcontentloaded")
            while "COMPLETED" not in (await tab.locator("h1 + .badge").text_content() or ""):
                await tab.reload(wait_until="domcontentloaded")
        await desk.context.close()
    assert [each.path for each in receiver.arrivals] == ["/crm"]
