"""The overview tells operators, and nobody else, what the checks of the whole books found."""

from collections.abc import AsyncIterator

import pytest

from conftest import Api
from postdate.monitor.store import vital as vital_store
from postdate.node import initial_key as first
from postdate.tenant.change.tenant import Tenants
from support.plain_browser import Browser


@pytest.fixture
async def browser(api: Api) -> AsyncIterator[Browser]:
    async with Browser(api) as opened:
        yield opened


async def test_the_overview_tells_operators_when_the_books_were_checked(browser: Browser) -> None:
    async def ran(name: str, findings: int) -> None:
        async with browser.api.node.database.write() as connection:
            await vital_store.audited(connection, name, 1.0, findings)

    await ran("prove", 0)
    await ran("verify", 2)
    try:
        tenants = Tenants(browser.api.node.database)
        await first.ensure_tenant(tenants)
        operator = (await tenants.issue(first.TENANT, ["admin"])).key
        await browser.sign_in(operator)
        told = (await browser.get("/")).text
        line = told.partition('id="checks"')[2].partition("</p>")[0]
        assert "ago, nothing found; <code>postdate reconcile</code> " in line
        assert "postdate events verify reported 2 findings" in told
        # They are the cluster's books: a tenant's own people need not see them.
        for other in (browser.api.key, await browser.api.new_key("jobs:read", "payments:read")):
            await browser.sign_in(other)
            assert "postdate events verify" not in (await browser.get("/")).text
    finally:
        await ran("verify", 0)
