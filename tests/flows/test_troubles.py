"""A destination in trouble is told wherever it matters, by what any process knows of it."""

import time
from typing import Any
from uuid import UUID, uuid4

import pytest

from conftest import Api
from postdate.delivery.breaker import FAILURES, Health
from postdate.worker.trouble import TroubleReporter
from support.plain_browser import Browser

pytestmark = pytest.mark.own_database("its loops work for every tenant")

URL = "http://127.0.0.1:2/hook"


@pytest.fixture
async def tenant_id(api: Api) -> int:
    found = await api.node.database.writer.fetchval(
        "SELECT tenant_id FROM tenant WHERE name = $1", api.tenant
    )
    return int(found)


def teller(api: Api, node_id: UUID | None = None) -> TroubleReporter:
    return TroubleReporter(api.node.database, node_id or api.node.node_id, api.node._reports)


def fail(api: Api, tenant_id: int, place: str, answer: str = "http_503: no") -> None:
    now = time.monotonic()
    for _ in range(FAILURES):
        api.node.outgoing.webhook.breakers.record(
            (tenant_id, place), now - 0.25, now, Health.DOWN, 0.0, answer
        )


async def job(api: Api, **parts: Any) -> str:
    body = {"delay_seconds": 0, "payload": {}, **parts}
    body["destination"] = {"type": "webhook", **body["destination"]}
    answer = await api.call("POST", "/jobs", body)
    assert answer.status == 201, answer.body
    return str(answer.body["job_id"])


async def test_a_failing_destination_is_told_by_itself_its_jobs_and_the_overview(
    api: Api, tenant_id: int
) -> None:
    made = await api.call("POST", "/destinations", {"name": "crm", "url": URL})
    assert (made.body["status"], made.body["trouble"]) == ("ACTIVE", None)
    due = await job(api, destination={"name": "crm"})
    later = await job(api, destination={"name": "crm"}, delay_seconds=600)
    elsewhere = await job(api, destination={"url": URL})
    fail(api, tenant_id, "crm")
    [tell] = [loop._run_once for loop in api.node.housekeeping() if loop.name == "troubles"]
    await tell(1)
    await api.node.refresh_settings()

    told = (await api.call("GET", "/destinations/crm")).body
    assert told["status"] == "FAILING"
    trouble = told["trouble"]
    assert (trouble["calls"], trouble["success_rate"], trouble["p99_ms"]) == (FAILURES, 0, 250)
    assert trouble["last_answers"] == ["http_503: no"] * 5
    held = (await api.call("GET", f"/jobs/{due}")).body["held_back"]
    assert held["destination"] == "crm"
    assert held["until"] >= trouble["held_until"]
    listed = {each["job_id"]: each for each in (await api.call("GET", "/jobs")).body["jobs"]}
    assert listed[due]["held_back"] == held
    assert "held_back" not in listed[later]
    assert "held_back" not in listed[elsewhere]
    async with Browser(api) as browser:
        await browser.sign_in()
        told = (await browser.get("/")).text
        assert "Destination crm is failing." in told
        assert "It last answered: http_503: no." in told
        assert "Held back: destination" in (await browser.get(f"/jobs/{due}")).text
        assert "FAILING" in (await browser.get("/destinations")).text

    api.node.outgoing.webhook.breakers.forget((tenant_id, "crm"))
    await tell(1)
    await api.node.refresh_settings()
    assert (await api.call("GET", "/destinations/crm")).body["status"] == "ACTIVE"
    assert "held_back" not in (await api.call("GET", f"/jobs/{due}")).body


async def test_a_bare_url_is_told_without_its_query(api: Api, tenant_id: int) -> None:
    due = await job(api, destination={"url": f"{URL}?job=1"})
    fail(api, tenant_id, URL)
    await teller(api).run_once()
    await api.node.refresh_settings()
    assert (await api.call("GET", f"/jobs/{due}")).body["held_back"]["destination"] == URL


async def test_nodes_are_told_together_and_a_silent_one_is_forgotten(
    api: Api, tenant_id: int
) -> None:
    fail(api, tenant_id, "crm", "first")
    silent = uuid4()
    await teller(api, silent).run_once()
    fail(api, tenant_id, "crm", "second")
    await teller(api).run_once()
    await api.node.refresh_settings()
    [trouble] = api.node.troubles.of_tenant(tenant_id)
    assert (trouble.calls, trouble.answers[-1]) == (3 * FAILURES, "second")
    await api.node.database.writer.execute(
        "UPDATE destination_trouble SET reported_at = clock() - interval '1 hour' "
        "WHERE node_id = $1",
        silent,
    )
    await api.node.refresh_settings()
    [trouble] = api.node.troubles.of_tenant(tenant_id)
    assert trouble.calls == 2 * FAILURES


async def test_while_nothing_changes_nothing_is_written(api: Api, tenant_id: int) -> None:
    own = teller(api)

    async def writes() -> int:
        found = await api.node.database.writer.fetchval(
            "SELECT count(*) FROM destination_trouble WHERE tenant_id = $1 AND reported_at > $2",
            tenant_id,
            before,
        )
        return int(found)

    before = await api.node.database.writer.fetchval("SELECT clock()")
    await own.run_once()
    assert await writes() == 0
    fail(api, tenant_id, "crm")
    await own.run_once()
    assert await writes() == 1
    before = await api.node.database.writer.fetchval("SELECT clock()")
    await own.run_once()
    assert await writes() == 0
