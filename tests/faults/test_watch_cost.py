"""What the watch on liveness asks of an idle database."""

import time
from collections.abc import AsyncIterator
from uuid import UUID

import pytest
from prometheus_client import CollectorRegistry

from conftest import app_dsn
from faults import sweep
from faults.pg_proxy import Plan
from faults.sweep import Nodes
from postdate.core.setting.setting import Settings
from postdate.database.embedded import Embedded
from postdate.lane.store.lane import LaneDirectory
from postdate.monitor.view.overdue import WATCH_SECONDS, OverdueWatch
from support.worker import make_lane

LOOKS = 20
STATEMENTS_MOST = 5
"""Of one look, however many lanes there are: one a second, and no transaction around them."""


@pytest.fixture
async def nodes(server: Embedded, database_name: str) -> AsyncIterator[Nodes]:
    async with sweep.nodes(server, app_dsn(server, database_name)) as opened:
        yield opened


@pytest.mark.parametrize("lanes_most", [10, pytest.param(200, marks=pytest.mark.soak)])
async def test_the_watch_asks_an_idle_database_once_a_second(
    nodes: Nodes, tenant_id: int, lanes_most: int
) -> None:
    for number in range(lanes_most):
        await make_lane(nodes.direct, tenant_id, f"lane-{number}")
    lanes = LaneDirectory(nodes.proxied)
    await lanes.refresh()
    watch = OverdueWatch(
        CollectorRegistry(),
        nodes.proxied,
        lanes,
        Settings(),
        UUID(int=7),
        # As a worker does, which then asks for its own leases too.
        reexamine={"lease": [lambda *_: None]},
    )
    await watch.run_once()
    plan = nodes.proxy.arm(Plan())
    began = time.monotonic()
    for _ in range(LOOKS):
        await watch.run_once()
    seconds = (time.monotonic() - began) / LOOKS
    each = len(plan.seen) / LOOKS
    print(
        f"the watch, idle, {lanes_most} lanes: {each:.1f} statements a look, "
        f"{each / WATCH_SECONDS:.1f} a second; a look takes {seconds * 1000:.1f} ms, "
        f"{seconds / WATCH_SECONDS:.2%} of one connection"
    )
    assert each <= STATEMENTS_MOST, plan.seen
