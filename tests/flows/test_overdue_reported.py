"""What nobody touches is named by `/readyz`, the metrics, `postdate top` and the console."""

from collections.abc import AsyncIterator

import pytest

from conftest import Api
from postdate.cli import vitals_page
from postdate.monitor.view.overdue import Overdue
from postdate.tenant.change.tenant import Tenants
from support.plain_browser import Browser


@pytest.fixture
async def overdue(api: Api) -> AsyncIterator[None]:
    meter = api.node.overdue._meter
    tenant_id = await api.node.database.writer.fetchval(
        "SELECT tenant_id FROM tenant WHERE name = $1", api.tenant
    )
    meter.now([Overdue("payment", (3, -1), "some payment", 25.0, tenant_id)])
    yield
    meter.now([])


async def get(api: Api, path: str) -> tuple[int, str]:
    async with api.session.get(f"{api.url}{path}") as response:
        return response.status, await response.text()


@pytest.mark.usefixtures("overdue")
async def test_readyz_names_it_and_stays_ready(api: Api) -> None:
    status, body = await get(api, "/readyz")
    assert status == 200
    assert '"overdue":["due payments: 1 of them were not touched for 25 s"]' in body


@pytest.mark.usefixtures("overdue")
async def test_the_metric_and_top_name_it(api: Api) -> None:
    _, text = await get(api, "/metrics")
    assert 'postdate_overdue{kind="payment"} 1.0' in text
    said = vitals_page._warnings(vitals_page.parse([text]))
    assert "1 payments overdue: nobody has touched them" in said


@pytest.mark.usefixtures("overdue")
async def test_the_overview_names_it_to_its_tenant_only(api: Api) -> None:
    other = f"{api.tenant}-other"
    await Tenants(api.node.database).create(other)
    for key, told in ((api.key, True), (await api.new_key("admin", tenant=other), False)):
        async with Browser(api) as browser:
            await browser.sign_in(key)
            page = await browser.get("/")
            assert page.status == 200
            assert ("Overdue: due payments" in page.text) is told
