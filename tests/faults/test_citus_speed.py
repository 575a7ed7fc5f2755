"""How fast a Citus cluster is beside one PostgreSQL: in turns, in one run, as ratios.

A rate says nothing on a shared machine; the ratio of two rates of one run does, and has a lower
bound. Each arm must also do all of its work, with few remote commands. The figures are printed:
docs/evidence/measured.md repeats them.
"""

import asyncio
import os
import statistics
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest

from conftest import scratch
from postdate.database.connection import opening
from postdate.database.connection.database import Database
from postdate.database.embedded import Embedded
from postdate.database.shard import attachment
from postdate.job.accept.request import AcceptedJob
from postdate.runtime import node as node_store
from postdate.runtime.share import nearest
from postdate.schema import migrate
from postdate.settlement.settler import Settler
from support import citus
from support.bank import Bank, DuePayment, settings
from support.job import ask, make_intake
from support.pause import wait_out
from support.worker import Handled, add_jobs, make_lane, make_tenant, make_worker, refresh

pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(
        not citus.DIRECTORY, reason="no Citus: POSTDATE_TEST_CITUS names no server directory"
    ),
]
JOBS = 6_000
PAYMENTS = 3_000
ACCOUNTS = 400
ROUNDS = 2
NODES = 2
MAX_COMMANDS = 14
"""How often one accept may ask another database node, of which each time costs a round trip."""
PLAIN, COORDINATOR, ATTACHED = "plain", "coordinator", "attached"
MIN_RATIO = {COORDINATOR: 0.25, ATTACHED: 0.5}
"""The lowest rate beside one PostgreSQL: a half was asked for where nodes of ours are attached."""


@pytest.fixture(scope="module")
async def addresses() -> AsyncIterator[dict[str, str]]:
    """One PostgreSQL, and a coordinator with two workers: the same binaries, all durable."""
    with scratch() as alone, scratch() as many:
        plain = Embedded(alone)
        login = await plain.start()
        await migrate.migrate(login.owner_dsn())
        try:
            async with citus.cluster(many, settings={}) as cluster:
                await cluster.make_database("postdate")
                spread = cluster.credentials.login.app_dsn()
                yield {PLAIN: login.app_dsn(), COORDINATOR: spread, ATTACHED: spread}
        finally:
            await plain.stop()


async def _open(dsn: str) -> Database:
    opened = await opening.connect(dsn, writers=6, readers=1)
    await opened.writer.execute(
        """INSERT INTO setting (tenant_id, name, value, operator, changed_by)
           VALUES (0, 'payment.unsafe_commits', '"accept"', true, 'tests') ON CONFLICT DO NOTHING"""
    )
    return opened


async def _join(nodes: dict[UUID, Database], role: str, *, attach: bool) -> None:
    """Have nodes share the buckets, and attach each to the database node that is its turn."""
    for node_id, database in nodes.items():
        async with database.connection() as connection:
            await connection.execute("DELETE FROM node WHERE node_id <> ALL ($1)", list(nodes))
            await node_store.beat(connection, node_id, "speed", [role], "0")
    for node_id, database in nodes.items():
        if attach:
            async with database.connection() as connection:
                database.shard_map.owners = await attachment.owners(connection)
                live = await node_store.list_live(connection, 600)
            await attachment.attach(database, nearest(live, database.shard_map.owners)[node_id])


async def _until(total: int, step: Callable[[int], Awaitable[int]], done: list[int]) -> None:
    while sum(done) < total:
        count = await step(1000)
        done.append(count)
        if not count:
            await wait_out(0.005)


async def _jobs(databases: Sequence[Database], *, attach: bool) -> float:
    tenant_id = await make_tenant(databases[0], f"t-{uuid4().hex}")
    lanes = [await make_lane(databases[0], tenant_id, f"l{n}") for n in range(8)]
    workers = [await make_worker(each, Handled(), tenant_id) for each in databases]
    ids = [worker.claimer.node_id for worker in workers]
    await _join(dict(zip(ids, databases, strict=True)), "worker", attach=attach)
    for lane in lanes:
        for _ in range(JOBS // 8 // 250):
            await add_jobs(databases[0], lane, 250)
    for worker in workers:
        await refresh(worker)
    done: list[int] = []
    began = time.monotonic()
    async with asyncio.timeout(300):
        await asyncio.gather(*(_until(JOBS, worker.run_once, done) for worker in workers))
        for worker in workers:
            await worker.runner.wait_idle()
    return JOBS / (time.monotonic() - began)


async def _payments(databases: Sequence[Database], *, attach: bool) -> float:
    tenant_id = await make_tenant(databases[0], f"t-{uuid4().hex}")
    bank = Bank(databases[0], tenant_id)
    await bank.open({f"a{n}": 100_000 for n in range(ACCOUNTS)})
    at = await bank.now() - timedelta(seconds=1)
    ids = [uuid4() for _ in databases]
    await _join(dict(zip(ids, databases, strict=True)), "settlement", attach=attach)
    for first in range(0, PAYMENTS, 500):
        numbers = range(first, first + 500)
        await bank.pay(
            [DuePayment(f"a{n % ACCOUNTS}", f"a{(n + 7) % ACCOUNTS}", 1, at) for n in numbers]
        )
    settlers = [
        Settler(each, settings(), node_id) for each, node_id in zip(databases, ids, strict=True)
    ]
    done: list[int] = []
    began = time.monotonic()
    async with asyncio.timeout(300):
        await asyncio.gather(*(_until(PAYMENTS, one.run_once, done) for one in settlers))
    return PAYMENTS / (time.monotonic() - began)


async def test_throughput_beside_one_postgresql(addresses: dict[str, str]) -> None:
    """Jobs executed and payments settled by two nodes, as ratios to one PostgreSQL."""
    pools = {arm: [await _open(dsn) for _ in range(NODES)] for arm, dsn in addresses.items()}
    rates: dict[tuple[str, str], list[float]] = defaultdict(list)
    ratios: dict[tuple[str, str], float] = {}
    for _ in range(ROUNDS):
        for arm, databases in pools.items():
            for what, run in (("jobs", _jobs), ("payments", _payments)):
                rate = await run(databases, attach=arm == ATTACHED)
                rates[what, arm].append(rate)
                print(f"{what} {arm}: {rate:.0f}/s, load {os.getloadavg()[0]:.1f}", flush=True)
    for what in ("jobs", "payments"):
        base = statistics.median(rates[what, PLAIN])
        for arm in (COORDINATOR, ATTACHED):
            ratios[what, arm] = statistics.median(rates[what, arm]) / base
            print(f"{what}: {arm} {ratios[what, arm]:.2f} of plain", flush=True)
    for databases in pools.values():
        for each in databases:
            await each.close()
    assert [name for name, ratio in ratios.items() if ratio < MIN_RATIO[name[1]]] == []


async def test_remote_commands_of_an_accept(
    addresses: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """How often the node that is asked asks another one, for one job under a key."""
    told: list[str] = []

    def keep(_: Any, fields: dict[str, str], __: Any) -> None:
        told.append(str(fields))

    # A listener would be taken off when the connection goes back to its pool.
    monkeypatch.setattr(asyncpg.connection.Connection, "_process_log_message", keep)
    for arm in (COORDINATOR, ATTACHED):
        database = await opening.connect(addresses[arm], writers=1, readers=1)
        tenant_id = await make_tenant(database, f"t-{uuid4().hex}")
        if arm == ATTACHED:
            async with database.connection() as connection:
                owners = await attachment.owners(connection)
            await attachment.attach(database, owners[0])
        intake = make_intake(database)
        await intake.accept([ask(tenant_id, "first")])
        async with database.near.writer.acquire() as asking:
            await asking.execute("SET client_min_messages = log")
            await asking.execute("SET citus.log_remote_commands = on")
        counts = []
        for n in range(12):
            told.clear()
            [outcome] = await intake.accept([ask(tenant_id, f"k{n}")])
            assert isinstance(outcome, AcceptedJob)
            counts.append(sum("issuing" in text for text in told))
        print(f"{arm}: remote commands of an accept {sorted(counts)}", flush=True)
        assert 0 < max(counts) <= MAX_COMMANDS
        await database.close()
