"""Three database nodes under Patroni: the leader is killed under load, and nothing is lost."""

import asyncio
import itertools
import os
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import asyncpg
import pytest
from three_nodes import DatabaseNode, ThreeNodes

from conftest import eventually, scratch
from support.pause import wait_out
from support.receiver import Receiver
from support.serve_process import Served
from support.steady_load import ACCOUNTS, FUNDS, SteadyLoad

pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(
        not Path(sys.executable).with_name("patroni").exists(),
        reason="Patroni is not installed: .tools/bin/uv sync --all-extras --group patroni",
    ),
]

FAILOVERS: Final = int(os.environ.get("POSTDATE_TEST_FAILOVERS", "2"))
ACKNOWLEDGED: Final = 10_000
FAILOVER_SECONDS: Final = 30.0
GAP_SECONDS: Final = 12.0
"""How long writes may stand still when something is lost that does not lead."""

ALONE_SECONDS: Final = 40.0
END_SECONDS: Final = 180.0
"""How long everything may take to end after the last request, on a busy machine."""


@dataclass
class Fleet:
    """Three database nodes, two nodes of ours on them, and what receives their webhooks."""

    databases: ThreeNodes
    nodes: list[Served]
    receiver: Receiver

    async def superuser(self) -> asyncpg.Connection:
        """Connect to whichever node leads."""
        password = self.databases.passwords["PATRONI_SUPERUSER_PASSWORD"]
        hosts = self.databases.dsn().rpartition("@")[2]
        dsn = f"postgresql://postgres:{password}@{hosts}?target_session_attrs=read-write"
        return await asyncpg.connect(dsn, timeout=10, server_settings={"search_path": "postdate"})

    async def fetch(self, statement: str) -> list[Any]:
        """Ask the leader."""
        connection = await self.superuser()
        try:
            return list(await connection.fetch(statement))
        finally:
            await connection.close()

    async def formed(self, seconds: float = 120.0) -> None:
        """Wait until one node leads and two follow."""

        async def check() -> bool:
            return await asyncio.to_thread(self.databases.formed)

        await eventually(check, seconds, 0.5)


@pytest.fixture(scope="module")
async def fleet() -> AsyncIterator[Fleet]:
    with scratch() as home:
        databases = ThreeNodes(home / "databases")
        try:
            await asyncio.to_thread(databases.start)
            async with Receiver() as receiver:
                nodes = await _nodes(home, databases)
                yield Fleet(databases, nodes, receiver)
                for node in nodes:
                    await node.stop()
        finally:
            await asyncio.to_thread(databases.stop)


async def _nodes(home: Path, databases: ThreeNodes) -> list[Served]:
    """Start two nodes with every role; the second reads from the standbys."""
    common = {
        "POSTDATE_DATABASE_URL": databases.dsn(),
        "POSTDATE_OWNER_DATABASE_URL": databases.dsn("migrate"),
        "POSTDATE_SECRET_KEY": "5e" * 32,
        "POSTDATE_ADMIN_KEY": "pdk_failover_" + "a" * 40,
        "POSTDATE_ALLOW_PRIVATE_TARGETS": "127.0.0.0/8",
    }
    reading = {
        "POSTDATE_READ_DATABASE_URL": databases.dsn(extra="?target_session_attrs=prefer-standby")
    }
    found = []
    for name, more in (("first", {}), ("second", reading)):
        directory = home / name / "data"
        directory.mkdir(parents=True)
        node = Served(directory, env=common | more)
        await node.start()
        await node.ready()
        found.append(node)
    return found


@pytest.fixture(scope="module")
async def load(fleet: Fleet) -> AsyncIterator[SteadyLoad]:
    key = fleet.nodes[0].env["POSTDATE_ADMIN_KEY"]
    found = SteadyLoad([node.url for node in fleet.nodes], key, fleet.receiver.url("/job"))
    await found.open_accounts()
    yield found
    await found.close()


async def test_nothing_acknowledged_is_lost_or_done_twice_when_the_leader_dies(
    fleet: Fleet, load: SteadyLoad
) -> None:
    for number in range(FAILOVERS):
        await _round(fleet, load, number)


async def test_writes_go_on_without_a_standby_an_etcd_or_a_patroni(
    fleet: Fleet, load: SteadyLoad
) -> None:
    leader = await asyncio.to_thread(fleet.databases.leader)
    assert leader is not None
    standby = next(node for node in fleet.databases.nodes if node is not leader)
    for name, kill, repair in (
        ("standby", standby.kill_database, standby.start_patroni),
        ("etcd of a standby", standby.kill_etcd, standby.start_etcd),
        ("Patroni of the leader", leader.kill_patroni, leader.start_patroni),
    ):
        async with load.running():
            await _acknowledged(load, len(load.acknowledged) + 200)
            lost_at = time.monotonic()
            await asyncio.to_thread(kill)
            # As the service manager does with a process that has died.
            await wait_out(2 if repair == leader.start_patroni else 15)
            await asyncio.to_thread(repair)
            await _acknowledged(load, len(load.acknowledged) + 200)
        times = [lost_at, *(each.at for each in load.acknowledged.values() if each.at > lost_at)]
        gap = max(after - before for before, after in itertools.pairwise(times))
        print(f"\n{name} lost: the longest time without an acknowledged write {gap:.1f} s")
        assert await asyncio.to_thread(fleet.databases.leader) is leader
        assert gap <= GAP_SECONDS
        await fleet.formed()
    print(await _verify(fleet, load), flush=True)


async def test_one_database_node_alone_is_read_and_not_written(
    fleet: Fleet, load: SteadyLoad
) -> None:
    """Two zones of three are gone: nobody could tell whether the others go on without us."""
    leader = await asyncio.to_thread(fleet.databases.leader)
    assert leader is not None
    others = [node for node in fleet.databases.nodes if node is not leader]
    async with load.running(singles=4, batches=1):
        await _acknowledged(load, len(load.acknowledged) + 200)
        for node in others:
            await asyncio.to_thread(node.kill)
        lost_at = time.monotonic()
        await wait_out(ALONE_SECONDS)
        written = [each for each in load.acknowledged.values() if each.sent_at > lost_at]
        reads = [status for at, _, status in load.reads if at > lost_at + ALONE_SECONDS / 2]
        for node in others:
            await asyncio.to_thread(node.start)
        seconds = await _resumed(load, time.monotonic())
        await _acknowledged(load, len(load.acknowledged) + 200)
    served = reads.count(200)
    print(
        f"\ntwo of three lost: {len(written)} acknowledged, {served}/{len(reads)} reads served; "
        f"writes resumed {seconds:.1f} s after both were started"
    )
    assert written == []
    assert served >= 0.95 * len(reads) > 0
    print(await _verify(fleet, load), flush=True)
    await fleet.formed()


async def _round(fleet: Fleet, load: SteadyLoad, number: int) -> None:
    """Kill the leader in the middle of the load; every second time its whole zone."""
    zone = bool(number % 2)
    before = len(load.acknowledged)
    async with load.running():
        await _acknowledged(load, before + ACKNOWLEDGED // 2)
        leader = await asyncio.to_thread(fleet.databases.leader)
        assert leader is not None
        killed_at = time.monotonic()
        await _kill(fleet, leader, zone=zone)
        seconds = await _resumed(load, killed_at)
        await _acknowledged(load, before + ACKNOWLEDGED)
    found = await _verify(fleet, load)
    doubted = [each for each in load.acknowledged.values() if each.doubted and each.at > killed_at]
    committed = sum(each.replayed for each in doubted)
    reads = [each for each in load.reads if killed_at < each[0] < killed_at + seconds]
    served = sum(each[2] == 200 for each in reads)
    lost_node = fleet.nodes[0].url if zone else ""
    expected = [each for each in reads if each[1] != lost_node]
    print(
        f"\nfailover {number + 1}: {'zone' if zone else 'leader'} {leader.name} lost, "
        f"{len(load.acknowledged) - before} acknowledged, writes resumed after {seconds:.1f} s, "
        f"{len(doubted)} in doubt ({committed} had committed), reads while away "
        f"{served}/{len(expected)}, {found}",
        flush=True,
    )
    assert seconds <= FAILOVER_SECONDS
    assert served >= 0.95 * len(expected) > 0
    await _repair(fleet, leader, zone=zone)


async def _kill(fleet: Fleet, leader: DatabaseNode, *, zone: bool) -> None:
    if not zone:
        await asyncio.to_thread(leader.kill_database)
        return
    process = fleet.nodes[0].process
    assert process
    process.kill()
    await asyncio.to_thread(leader.kill)
    await process.communicate()


async def _repair(fleet: Fleet, leader: DatabaseNode, *, zone: bool) -> None:
    """Start what was killed; it follows the new leader."""
    if zone:
        await asyncio.to_thread(leader.start_etcd)
        await fleet.nodes[0].start()
        await fleet.nodes[0].ready()
    await asyncio.to_thread(leader.start_patroni)
    await fleet.formed()


async def _acknowledged(load: SteadyLoad, count: int) -> None:
    async def check() -> bool:
        return len(load.acknowledged) >= count

    await eventually(check, 600, 0.02)


async def _resumed(load: SteadyLoad, killed_at: float) -> float:
    """Return after how many seconds a write was acknowledged that was sent after the kill."""
    found: list[float] = []
    dead_at = time.monotonic()

    async def check() -> bool:
        last = next(reversed(load.acknowledged.values()))
        if last.sent_at > dead_at:
            found.append(last.at - killed_at)
        return bool(found)

    await eventually(check, 120, 0.02)
    return found[0]


async def _verify(fleet: Fleet, load: SteadyLoad) -> str:
    """Let everything end, then compare what was acknowledged with what there is."""
    assert load.refused == []

    async def ended() -> bool:
        rows = await fleet.fetch("SELECT count(*) FROM timer WHERE lane_id NOT IN (1, 2)")
        return bool(rows[0][0] == 0)

    await eventually(ended, END_SECONDS, 0.5)
    payments = {str(row[0]) for row in await fleet.fetch("SELECT payment_id FROM payment")}
    jobs = {str(row[0]) for row in await fleet.fetch("SELECT job_id FROM job")}
    assert payments == {each.subject for each in load.of_kind("payment")}
    assert jobs == {each.subject for each in load.of_kind("job")}
    await _verify_money(fleet, len(payments))
    completed = await fleet.fetch(
        "SELECT status::text, count(*), count(DISTINCT subject) FROM outcome GROUP BY status"
    )
    assert [tuple(row)[1:] for row in completed] == [(len(payments) + len(jobs),) * 2], completed
    arrived = [each.headers["webhook-id"] for each in fleet.receiver.arrivals]
    assert set(arrived) == jobs
    return f"{len(payments)} payments, {len(jobs)} jobs, {len(arrived) - len(jobs)} arrivals again"


async def _verify_money(fleet: Fleet, payments: int) -> None:
    """Each payment moved 1 once; the books and the chain agree."""
    sums = await fleet.fetch(
        "SELECT left(account_id, 5), sum(balance), sum(held) FROM account "
        "WHERE account_id LIKE 'pay%' GROUP BY 1 ORDER BY 1"
    )
    assert [tuple(row) for row in sums] == [
        ("payee", payments, 0),
        ("payer", ACCOUNTS * FUNDS - payments, 0),
    ]
    for words in (("prove",), ("events", "verify")):
        node = fleet.nodes[1]
        environ = {k: v for k, v in os.environ.items() if not k.startswith("POSTDATE_")}
        environ |= node.env | {"POSTDATE_DATA_DIR": str(node.directory), "POSTDATE_URL": node.url}
        process = await asyncio.create_subprocess_exec(
            node.command, *words, env=environ, stdout=-1, stderr=-1
        )
        said = b"".join(await process.communicate())
        if process.returncode:
            print(said.decode())
        assert process.returncode == 0, words
