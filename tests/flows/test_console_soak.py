"""Every list page with a million jobs and a million payments: its queries walk an index's head."""

import json
import os
import re
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import asyncpg
import pytest
from playwright.async_api import async_playwright

from conftest import Api, owner_dsn
from postdate.database.embedded import Embedded
from postdate.tenant.store import tenant as tenant_store
from support.million_rows import fill
from support.plain_browser import PROGRAM, Browser

pytestmark = pytest.mark.soak

MANY = int(os.environ.get("POSTDATE_TEST_MANY", "1000000"))
BLOCKS_MOST = 30_000
"""Blocks of 8 KiB that the queries of one page may touch together."""

SERVER_MS_MOST = 50.0
SCRAPE_MS_MOST = 50.0
PAINT_SECONDS_MOST = 1.0
FEW = 1000
"""A partition with no more rows than this may be read whole."""

# The clock that tests can set reads a table each time it is asked; servers have this one.
SERVER_CLOCK = """CREATE OR REPLACE FUNCTION clock() RETURNS timestamptz
    LANGUAGE sql STABLE PARALLEL SAFE AS 'SELECT statement_timestamp()'"""
BIG = re.compile(r"(job|payment|outcome|timer|event|seal|occurrence|transfer|attempt)(_\d+)?$")
PAGES = (
    "/",
    "/jobs",
    "/jobs?status=PENDING",
    "/jobs?status=READY",
    "/jobs?status=COMPLETED",
    "/jobs?status=FAILED",
    "/jobs?status=UNKNOWN",
    "/jobs?lane=reports",
    "/jobs?lane=reports&status=FAILED",
    "/payments",
    "/payments?status=PENDING",
    "/payments?status=FAILED",
    "/payments?status=CANCELLED",
    "/payments?status=EXECUTING",
    "/payments?account=account-0007",
    "/payments?least=777&most=777",
    "/payments?account=account-0007&least=50000",
    "/accounts",
    "/accounts/account-0007",
    "/schedules",
    "/dead-letters",
    "/events",
    "/audit",
    "/audit?type=lane.*",
    "/lanes",
    "/find?q=777",
)


@dataclass
class QueryLog:
    """What was asked of the database while a page was made."""

    queries: list[tuple[str, tuple[Any, ...]]] = field(default_factory=list)
    seconds: float = 0.0


@contextmanager
def listening() -> Iterator[QueryLog]:
    """Note every query of this process, which serves the pages."""
    asked = QueryLog()
    methods = {
        name: getattr(asyncpg.Connection, name) for name in ("fetch", "fetchrow", "fetchval")
    }

    def noting(real: Any) -> Any:
        async def note(self: Any, query: str, *arguments: Any, **options: Any) -> Any:
            begun = time.perf_counter()
            try:
                return await real(self, query, *arguments, **options)
            finally:
                asked.seconds += time.perf_counter() - begun
                asked.queries.append((query, arguments))

        return note

    for name, real in methods.items():
        setattr(asyncpg.Connection, name, noting(real))
    try:
        yield asked
    finally:
        for name, real in methods.items():
            setattr(asyncpg.Connection, name, real)


def walk(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from walk(child)


async def explain(api: Api, tenant_id: int, query: str, arguments: tuple[Any, ...]) -> Any:
    async with api.node.database.read(tenant_id) as connection:
        text = await connection.fetchval(
            "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + query, *arguments
        )
    return json.loads(text)[0]


@pytest.fixture
async def tenant(api: Api, server: Embedded, database_name: str) -> int:
    """A tenant with a million of each."""
    spec = {"destination": {"type": "worker"}, "lane": "reports", "delay_seconds": 3600}
    assert (await api.call("POST", "/jobs", spec)).status == 201
    async with api.node.database.connection() as connection:
        tenant_id = await tenant_store.find(connection, api.tenant)
    assert tenant_id is not None
    lane = next(iter(await api.node.lanes.of_tenant(tenant_id)))
    owner = await asyncpg.connect(owner_dsn(server, database_name))
    await owner.execute("SET search_path = postdate")
    await owner.execute(SERVER_CLOCK)
    await fill(owner, tenant_id, lane, MANY)
    await owner.close()
    return tenant_id


@pytest.fixture
async def browser(api: Api) -> AsyncIterator[Browser]:
    async with Browser(api) as opened:
        await opened.sign_in()
        yield opened


@dataclass
class Page:
    """What one page cost: its queries as the client sees them, as the server does (the best of
    three, planning included), and the blocks they touch.
    """

    path: str
    client_ms: float
    server_ms: float = 0.0
    blocks: int = 0
    scans: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        told = f"{self.path:45} {self.client_ms:7.1f} ms {self.server_ms:7.1f} ms {self.blocks:7}"
        return f"{told} reads whole {self.scans}" if self.scans else told


async def opened(browser: Browser, path: str) -> QueryLog:
    with listening() as asked:
        seen = await browser.get(path)
    assert seen.status in {200, 303, 404}, path
    return asked


async def measured(browser: Browser, tenant: int, path: str) -> Page:
    asked = await opened(browser, path)
    page = Page(path, asked.seconds * 1e3)
    for query, arguments in asked.queries:
        tries = [await explain(browser.api, tenant, query, arguments) for _ in range(3)]
        page.server_ms += min(one["Planning Time"] + one["Execution Time"] for one in tries)
        found = tries[-1]["Plan"]
        page.blocks += found["Shared Hit Blocks"] + found["Shared Read Blocks"]
        page.scans += [node["Relation Name"] for node in walk(found) if reads_whole(node)]
    return page


def reads_whole(node: dict[str, Any]) -> bool:
    if node["Node Type"] != "Seq Scan" or not BIG.match(node["Relation Name"]):
        return False
    return bool(node["Actual Rows"] + node.get("Rows Removed by Filter", 0) > FEW)


async def painted(browser: Browser) -> float | None:
    """Give the seconds until Chromium has painted the overview, signed in and with a cold cache."""
    if PROGRAM is None:
        return None
    async with async_playwright() as playwright:
        options = ["--no-sandbox", "--disable-dev-shm-usage"]
        chromium = await playwright.chromium.launch(executable_path=PROGRAM, args=options)
        context = await chromium.new_context(locale="en-US")
        cookie = next(iter(browser.session.cookie_jar))
        await context.add_cookies(
            [{"name": cookie.key, "value": cookie.value, "url": browser.api.url}]
        )
        page = await context.new_page()
        await page.goto(browser.api.url + "/")
        await page.wait_for_selector("#plot-day canvas")
        seconds: float = await page.evaluate(
            "performance.getEntriesByName('first-contentful-paint')[0].startTime / 1000"
        )
        await chromium.close()
    return seconds


async def scraped(browser: Browser) -> float:
    begun = time.perf_counter()
    assert (await browser.get("/metrics")).status == 200
    return time.perf_counter() - begun


async def test_every_page_is_cheap_and_reads_no_big_table(browser: Browser, tenant: int) -> None:
    pages = [await measured(browser, tenant, path) for path in PAGES]
    paint = await painted(browser)
    scrape_ms = min([await scraped(browser) for _ in range(3)]) * 1e3
    report = [
        f"first paint of the overview: {paint} s; scrape: {scrape_ms:.1f} ms",
        f"{'page':45} {'client':>10} {'server':>10} {'blocks':>7}",
        *map(str, pages),
    ]
    print("\n".join(report))
    assert not [page for page in pages if page.scans or page.blocks > BLOCKS_MOST], report
    assert not [page for page in pages if page.server_ms > SERVER_MS_MOST], report
    assert scrape_ms <= SCRAPE_MS_MOST
    assert paint is None or paint <= PAINT_SECONDS_MOST
