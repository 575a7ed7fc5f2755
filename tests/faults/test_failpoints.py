"""A process is killed at each failpoint, and nothing is lost, stuck or done twice."""

import os
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable

import pytest

from conftest import app_dsn
from faults import kill_jobs, kill_money, kill_stages, sweep
from faults.kill import Killed, KillOperation, kill, named, start_forking
from faults.sweep import Nodes
from postdate.ledger.prove import prove
from postdate.model import failpoint
from postdate.publisher.verify import verify
from postdate.store.embedded import Embedded
from support.event import sealer

OPERATIONS = [*kill_money.OPERATIONS, *kill_jobs.OPERATIONS, *kill_stages.OPERATIONS]
MANY = int(os.environ.get("POSTDATE_TEST_KILLS", "200"))


@pytest.fixture(scope="module")
async def dsn(server: Embedded, database_name: str) -> str:
    return app_dsn(server, database_name)


@pytest.fixture(scope="module")
async def nodes(server: Embedded, dsn: str) -> AsyncIterator[Nodes]:
    start_forking()
    async with sweep.nodes(server, dsn) as opened:
        yield opened


@pytest.fixture(scope="module")
async def reached(nodes: Nodes, dsn: str) -> dict[str, type[KillOperation]]:
    """Let each operation live once: which of them reaches which point, the shortest first."""
    found: dict[str, list[tuple[int, type[KillOperation]]]] = defaultdict(list)
    wrong: list[Killed] = []
    for make in OPERATIONS:
        lived = await kill(nodes, dsn, make, "")
        if lived.code or lived.error or lived.violations:
            wrong.append(lived)
        for name in set(lived.reached):
            found[name].append((len(lived.reached), make))
    assert wrong == []
    return {name: min(made, key=lambda each: each[0])[1] for name, made in found.items()}


async def test_no_failpoint_is_dead(reached: dict[str, type[KillOperation]]) -> None:
    assert named() == reached.keys()


class Unprintable(str):
    """A name that nobody may build upon."""

    __slots__ = ()

    def __format__(self, _: str) -> str:
        raise AssertionError("a name was put together for nobody")


def test_a_failpoint_does_nothing_when_off() -> None:
    failpoint.reach(Unprintable("settle"), "before_commit")
    failpoint.arm(print)
    try:
        with pytest.raises(AssertionError, match="for nobody"):
            failpoint.reach(Unprintable("settle"), "before_commit")
    finally:
        failpoint.arm(None)


async def _kill_all(
    nodes: Nodes, dsn: str, points: Iterable[tuple[str, type[KillOperation]]]
) -> list[Killed]:
    killed = []
    for point, make in points:
        killed.append(await kill(nodes, dsn, make, point))
        if killed[-1].violations or not killed[-1].died:
            print(killed[-1])
    return killed


async def _check(nodes: Nodes, killed: list[Killed]) -> None:
    assert [each for each in killed if not each.died] == []
    assert [each for each in killed if each.violations] == []
    while await sealer(nodes.direct).run_once():
        pass
    assert (await prove(nodes.direct)).findings == []
    assert (await verify(nodes.direct, {})).findings == []


async def test_a_process_may_be_killed_in_each_operation(
    nodes: Nodes, dsn: str, reached: dict[str, type[KillOperation]]
) -> None:
    """One point of each here, all of them in the soak."""
    points = sorted(reached.items(), key=lambda each: each[0])
    one_of_each = {make: (point, make) for point, make in points}
    await _check(nodes, await _kill_all(nodes, dsn, one_of_each.values()))


@pytest.mark.soak
async def test_a_process_may_be_killed_again_and_again_at_each_failpoint(
    nodes: Nodes, dsn: str, reached: dict[str, type[KillOperation]]
) -> None:
    """`POSTDATE_TEST_KILLS=n` says how often at each."""
    killed: list[Killed] = []
    for _ in range(MANY):
        killed += await _kill_all(nodes, dsn, sorted(reached.items(), key=lambda each: each[0]))
        await _check(nodes, killed[-len(reached) :])
        print(f"{len(killed)} kills at {len(reached)} failpoints", flush=True)
