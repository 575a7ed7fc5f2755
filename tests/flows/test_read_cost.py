"""What reads cost: one round trip for a thing, one for a page of things."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from uuid import UUID

import pytest
from prometheus_client import CollectorRegistry

from conftest import Api, app_dsn
from faults import sweep
from faults.pg_proxy import Plan
from faults.sweep import Nodes
from postdate.account.view.account import MAX_VERSION, AccountViews
from postdate.core.identity import Identity, Scope
from postdate.core.ids import MAX_ID
from postdate.core.status import JobStatus, PaymentStatus
from postdate.database.connection.database import Database
from postdate.database.connection.tenant_reader import bound
from postdate.database.embedded import Embedded
from postdate.job.view import JobFilter, JobViews
from postdate.lane.store.lane import LaneDirectory
from postdate.monitor.view.vitals import PARTS, Vitals
from postdate.payment.view.payment import PaymentFilter, PaymentViews
from postdate.schedule.view import ScheduleViews
from support.job import failed
from support.schedule import create


@pytest.fixture
async def nodes(server: Embedded, database_name: str) -> AsyncIterator[Nodes]:
    async with sweep.nodes(server, app_dsn(server, database_name)) as opened:
        yield opened


class World:
    """A tenant with one of each, read through the proxy, which counts."""

    def __init__(self, nodes: Nodes, tenant_id: int, lanes: LaneDirectory) -> None:
        self.nodes = nodes
        self.who = Identity(
            tenant_id=tenant_id, tenant="t", key_id="k", scopes=frozenset({Scope.ADMIN})
        )
        self.jobs = JobViews(nodes.proxied, lanes)
        self.accounts = AccountViews(nodes.proxied)
        self.schedules = ScheduleViews(nodes.proxied, None)
        self.payments = PaymentViews(nodes.proxied)
        self.ids: dict[str, UUID] = {}


@pytest.fixture
async def world(nodes: Nodes, api: Api) -> World:
    tenant_id = await nodes.direct.writer.fetchval(
        "SELECT tenant_id FROM tenant WHERE name = $1", api.tenant
    )
    for name in ("anna", "bert"):
        await api.call("POST", "/accounts", {"account_id": name, "floor": -100})
    sent = {"from_account_id": "anna", "to_account_id": "bert", "amount": 5, "delay_seconds": 60}
    for key in ("one", "two"):
        named = {"Idempotency-Key": key}
        payment = await api.call("POST", "/payments/schedule", sent, headers=named)
    job = await api.call("POST", "/jobs", {"destination": {"type": "worker"}, "delay_seconds": 60})
    schedule = await create(api, name="hourly", cron="0 * * * *")
    lanes = LaneDirectory(nodes.direct)
    await lanes.refresh()
    made = World(nodes, tenant_id, lanes)
    made.ids = {
        "job": UUID(job.body["job_id"]),
        "payment": UUID(payment.body["payment_id"]),
        "schedule": UUID(schedule["schedule_id"]),
        "failed": UUID((await failed(api))[0]),
    }
    return made


FRAME = ("BEGIN READ ONLY", "SET LOCAL postdate.tenant_id", "COMMIT")
"""What stands around a read on shards, where the tenant is told to every database node."""


async def statements(world: World, read: Awaitable[Any]) -> list[str]:
    """Return the statements of a read that must find something."""
    plan = world.nodes.proxy.arm(Plan())
    found = await read
    assert found is not None
    assert not isinstance(found, tuple) or found[0], "an empty page proves nothing"
    frame = FRAME if world.nodes.proxied.sharded else ()
    return [each for each in plan.seen if not each.startswith(frame)]


Read = Callable[[World], Awaitable[Any]]
READS: dict[str, Read] = {
    "job": lambda w: w.jobs.find(w.who.tenant_id, w.ids["job"]),
    "jobs": lambda w: w.jobs.page(w.who.tenant_id, JobFilter(status=JobStatus.PENDING), None, 9),
    "account": lambda w: w.accounts.find(w.who, "anna"),
    "accounts": lambda w: w.accounts.page(w.who, "", 9),
    "statement": lambda w: w.accounts.statement(w.who, "anna", None, MAX_VERSION, 9),
    "schedule": lambda w: w.schedules.find(w.who, w.ids["schedule"]),
    "schedules": lambda w: w.schedules.page(w.who, None, 9),
    "payment": lambda w: w.payments.find(w.who, w.ids["payment"]),
    "payments of an account": lambda w: w.payments.page(
        w.who, PaymentFilter(account_id="bert"), MAX_ID, 1
    ),
    "pending payments": lambda w: w.payments.page(
        w.who, PaymentFilter(status=PaymentStatus.PENDING), MAX_ID, 1
    ),
}


async def test_a_read_is_one_statement(world: World) -> None:
    cost = {name: await statements(world, read(world)) for name, read in READS.items()}
    # A page of payments that is not full looks once more, beyond the last two weeks.
    looks = dict.fromkeys(READS, 1) | {"pending payments": 2}
    assert {name: len(seen) for name, seen in cost.items()} == looks, cost


async def test_only_a_failed_job_asks_whether_it_was_redriven(world: World) -> None:
    find = world.jobs.find(world.who.tenant_id, world.ids["failed"])
    # A job that was tried also asks for the progress of its worker.
    assert len(await statements(world, find)) == 3
    page = world.jobs.page(world.who.tenant_id, JobFilter(status=JobStatus.FAILED), None, 9)
    assert len(await statements(world, page)) == 2


async def test_vital_signs_are_read_in_few_statements(world: World, api: Api) -> None:
    vitals = Vitals(CollectorRegistry(), world.nodes.proxied, api.node.lanes)
    plan = world.nodes.proxy.arm(Plan())
    await vitals.run_once()
    # The backlog and what is pending ask which lanes have timers, and then twice each; everything
    # else is one statement, or one for each question on shards, where they are not combined.
    assert len(plan.seen) <= (17 if world.nodes.proxied.sharded else 7), plan.seen
    assert set(vitals._parts) == set(PARTS)


async def test_each_statement_sees_its_tenant_and_leaves_none_behind(
    database: Database, tenant_id: int
) -> None:
    lane = "INSERT INTO lane (tenant_id, name) VALUES ($1, 'mine')"
    await database.writer.execute(lane, tenant_id)
    counted = "SELECT count(*) FROM lane"
    mine, other = database.tenant_reader(tenant_id), database.tenant_reader(tenant_id + 1000)
    assert [await each.fetchval(counted) for each in (mine, other, mine)] == [1, 0, 1]
    # Even where the statement itself asks for another tenant.
    assert await other.fetch("SELECT name FROM lane WHERE tenant_id = $1", tenant_id) == []
    async with database.reader.acquire() as connection:
        assert await connection.fetchval(counted) == 0


@pytest.mark.parametrize(
    "text",
    [
        "SELECT name FROM lane WHERE tenant_id = $1",
        "SELECT lane_id FROM lane WHERE lane_id > $1 UNION ALL SELECT 1",
        "WITH mine AS MATERIALIZED (SELECT * FROM lane WHERE tenant_id = $1) SELECT * FROM mine",
    ],
)
async def test_the_tenant_is_bound_before_anything_is_read(database: Database, text: str) -> None:
    if database.sharded:
        pytest.skip("no statement binds its tenant there: a transaction says it with SET LOCAL")
    async with database.reader.acquire() as connection:
        await connection.execute(f"PREPARE asked AS {bound(text)}")
        rows = await connection.fetch("EXPLAIN (COSTS OFF) EXECUTE asked (1, 1)")
        await connection.execute("DEALLOCATE asked")
    # Alone at the top: no condition of a policy stands beside it, which might be evaluated first.
    assert [row[0].strip() for row in rows][:2] == [
        "Result",
        "One-Time Filter: ((InitPlan 1).col1 IS NOT NULL)",
    ]
