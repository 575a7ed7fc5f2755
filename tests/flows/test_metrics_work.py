"""How much is pending, how long attempts take, and who has them: bounded, and true."""

import pytest

from conftest import Api, admin
from postdate.database.connection import clock
from postdate.database.embedded import Embedded
from postdate.monitor.spec.activity import histogram
from postdate.monitor.spec.tenant_share import TenantShares
from postdate.monitor.view import pending
from postdate.monitor.view.pending import PendingWatch
from support.metric import scrape, value

WORKER = {"destination": {"type": "worker"}}


async def test_pending_is_told_by_kind_and_state(api: Api) -> None:
    async def read(state: str, kind: str = "pull") -> float:
        await api.node.lanes.refresh()
        await api.node.vitals.run_once()
        return value(await scrape(api), "postdate_pending", kind=kind, state=state)

    states = ("pending", "ready", "running")
    before = {state: await read(state) for state in states}
    for delay_seconds in (0, 0, 0, 600, 600):
        body = WORKER | {"lane": "pending", "delay_seconds": delay_seconds}
        assert (await api.call("POST", "/jobs", body)).status == 201
    await api.call("POST", "/lanes/pending/claim", {"max": 1, "lease_seconds": 60})
    grown = {state: await read(state) - before[state] for state in states}
    assert grown == {"pending": 2, "ready": 2, "running": 1}
    await api.call("POST", "/lanes/pending/pause", {"note": "a rest"})
    assert await read("paused") >= 5
    assert await read("pending", "payment") == 0
    samples = await scrape(api)
    assert value(samples, "postdate_pending_estimated", kind="pull", state="pending") == 0


async def test_beyond_the_budget_the_statistics_stand_for_a_count(
    api: Api, tenant_id: int, server: Embedded, database_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = api.node.database
    fill = """INSERT INTO timer (bucket, tenant_id, lane_id, subject, due_at)
              SELECT n % 64, $1, 0, gen_random_uuid(), clock() + interval '1 day'
                FROM generate_series(1, 6400) AS n"""
    async with database.write() as connection:
        await connection.execute(fill, tenant_id)
    await admin(server, "ANALYZE postdate.timer", database_name)

    async def look() -> pending.Pending:
        async with database.connection() as connection:
            at = await clock.now(connection)
            return await PendingWatch(api.node.lanes).scan(connection, at)

    counted = await look()
    assert counted.counts["payment", "pending"] == 6400
    assert counted.estimated == set()
    monkeypatch.setattr(pending, "PENDING_BUDGET", 500)
    estimated = await look()
    assert ("payment", "pending") in estimated.estimated
    assert 0.8 * 6400 <= estimated.counts["payment", "pending"] <= 1.2 * 6400
    async with database.write() as connection:
        await connection.execute("DELETE FROM timer WHERE tenant_id = $1", tenant_id)


async def test_how_long_attempts_took_is_told(api: Api) -> None:
    before = value(await scrape(api), "postdate_job_duration_seconds_count", kind="pull")
    await api.call("POST", "/jobs", WORKER | {"lane": "duration"})
    claimed = await api.call("POST", "/lanes/duration/claim", {"max": 1})
    (lease,) = claimed.body["leases"]
    await api.call("POST", f"/leases/{lease['job_id']}/complete", {"token": lease["token"]})
    samples = await scrape(api)
    assert value(samples, "postdate_job_duration_seconds_count", kind="pull") == before + 1
    assert value(samples, "postdate_job_duration_seconds_sum", kind="pull") > 0


async def test_attempts_are_told_by_tenant(api: Api) -> None:
    await api.call("POST", "/jobs", WORKER | {"lane": "shares"})
    await api.call("POST", "/lanes/shares/claim", {"max": 1})
    await api.node.vitals.run_once()
    samples = await scrape(api)
    name = "postdate_tenant_attempts_total"
    assert value(samples, name, tenant=api.tenant, kind="job") >= 1
    assert value(samples, name, tenant="the rest", kind="payment") == 0
    late = value(samples, "postdate_tenant_lateness_seconds_count", tenant=api.tenant)
    assert late == value(samples, name, tenant=api.tenant, kind="job")


def test_only_the_busiest_tenants_have_series_of_their_own() -> None:
    shares = TenantShares(named_tenants=2)

    def attempt(tenant_id: int, count: int) -> None:
        shares.add(tenant_id, "job", histogram([0.5] * count), 0.5 * count)

    for tenant_id in (1, 2, 3):
        attempt(tenant_id, 10)
    assert (set(shares.named), shares.rest.attempts["job"]) == ({1, 2}, 10)
    attempt(3, 100)
    shares.rank()
    # It takes the place of a quieter one, and begins at zero: what it did is with the rest.
    assert 3 in shares.named
    assert len(shares.named) == 2
    assert shares.named[3].attempts["job"] == 0
    attempt(3, 5)
    assert (shares.named[3].attempts["job"], shares.rest.attempts["job"]) == (5, 110)
    # A tenant that does no more than another does not take its place.
    kept = set(shares.named)
    attempt(4, 20)
    attempt(3, 20)
    shares.rank()
    assert 3 in shares.named
    assert len(shares.named) == 2
    assert kept & set(shares.named)
