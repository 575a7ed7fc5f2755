"""What an idle node asks and computes does not grow with what is configured."""

import sys
from collections import Counter
from collections.abc import AsyncIterator
from functools import partial
from uuid import UUID

import pytest
from prometheus_client import CollectorRegistry

from conftest import app_dsn
from faults import sweep
from faults.pg_proxy import Plan
from faults.sweep import Nodes
from postdate.core.setting.setting import Settings
from postdate.database.embedded import Embedded
from postdate.job.spec.tally import Tally
from postdate.lane.store.lane import LaneDirectory
from postdate.monitor.view.overdue import OverdueWatch
from postdate.monitor.view.vitals import Vitals
from postdate.worker.retention import Retention
from postdate.worker.worker import JobWorker

FEW, MANY = 20, 2000
LANES_EACH = 10
MAX_RATIO = 1.5
STEPS = ("start", "worker", "lanes", "watch", "vitals", "retention")


@pytest.fixture
async def nodes(server: Embedded, database_name: str) -> AsyncIterator[Nodes]:
    async with sweep.nodes(server, app_dsn(server, database_name)) as opened:
        yield opened


async def _configure(nodes: Nodes, lanes: int) -> None:
    """Make tenants with lanes, set up long ago."""
    await nodes.direct.writer.execute(
        """WITH made AS (INSERT INTO tenant (name)
                         SELECT format('idle-%s-%s', $1::integer, n)
                           FROM generate_series(1, $1 / $2::integer) AS n RETURNING tenant_id)
           INSERT INTO lane (tenant_id, name, changed_at)
           SELECT tenant_id, 'lane-' || n, clock() - interval '1 day'
             FROM made, generate_series(1, $2::integer) AS n""",
        lanes,
        LANES_EACH,
    )


class Idle:
    """The loops of a node that have to do with lanes, one step at a time."""

    def __init__(self, nodes: Nodes) -> None:
        database, settings, registry = nodes.proxied, Settings(), CollectorRegistry()
        self.lanes = LaneDirectory(database)
        self.worker = JobWorker(
            database=database,
            node_id=UUID(int=7),
            lanes=self.lanes,
            settings=settings,
            handlers={"webhook": None},  # type: ignore[dict-item]
            tally=Tally(),
        )
        self.watch = OverdueWatch(
            registry,
            database,
            self.lanes,
            settings,
            UUID(int=7),
            reexamine={"lease": [lambda *_: None]},
        )
        self.sight = Vitals(registry, database, self.lanes)
        self.walk = Retention(database, settings)

    async def step(self, name: str) -> None:
        match name:
            case "start" | "lanes":
                await self.lanes.refresh()
                await self.worker.claimer.refresh()
            case "worker":
                self.worker.claimer.lane_buckets.hint_all(0.0)
                await self.worker.run_once(250)
            case "watch":
                await self.watch.run_once()
            case "vitals":
                await self.sight.run_once()
            case "retention":
                await self.walk.run_once(1000)


async def _cost(nodes: Nodes) -> dict[str, tuple[int, int]]:
    """Return how many statements and calls of functions each step of an idle node makes."""
    idle, found = Idle(nodes), {}
    for name in STEPS:
        plan, calls = nodes.proxy.arm(Plan()), Counter[str]()
        sys.setprofile(partial(_count, calls))
        try:
            await idle.step(name)
        finally:
            sys.setprofile(None)
        found[name] = len(plan.seen), calls["call"] + calls["c_call"]
    return found


def _count(calls: Counter[str], _frame: object, event: str, _argument: object) -> None:
    calls[event] += 1


async def test_lanes_without_timers_cost_nothing(nodes: Nodes) -> None:
    await _configure(nodes, FEW)
    await _cost(nodes)  # prepares what is prepared once
    few = await _cost(nodes)
    await _configure(nodes, MANY)
    many = await _cost(nodes)
    print(f"statements and calls with {FEW} lanes: {few}, with {MANY}: {many}")
    # A new directory reads no more than MAX_FIRST lanes, whatever there is.
    assert many["start"][0] == few["start"][0]
    for name in STEPS[1:]:
        assert many[name][0] <= few[name][0] + 1, name
        assert many[name][1] <= few[name][1] * MAX_RATIO, name
