"""The proxy loses exactly what it is told to lose."""

from collections.abc import AsyncIterator

import pytest

from conftest import app_dsn
from faults import sweep
from faults.pg_proxy import Fault, Plan
from faults.sweep import Nodes
from postdate.database.connection.error import CommitUnknownError, DatabaseError
from postdate.database.embedded import Embedded

COUNT = "SELECT count(*) FROM setting WHERE name = 'proxy'"
INSERT = (
    "INSERT INTO setting (tenant_id, name, value, operator, changed_by) "
    "VALUES (0, 'proxy', '1', true, 'test')"
)


@pytest.fixture(scope="module")
async def nodes(server: Embedded, database_name: str) -> AsyncIterator[Nodes]:
    async with sweep.nodes(server, app_dsn(server, database_name)) as opened:
        yield opened


@pytest.fixture(autouse=True)
async def clean(nodes: Nodes) -> AsyncIterator[None]:
    yield
    await nodes.proxy.arrived()
    await nodes.direct.writer.execute("DELETE FROM setting WHERE name = 'proxy'")


async def insert(nodes: Nodes, plan: Plan) -> None:
    nodes.proxy.arm(plan)
    async with nodes.proxied.write() as connection:
        await connection.execute(INSERT)


async def stored(nodes: Nodes) -> int:
    found: int = await nodes.direct.writer.fetchval(COUNT)
    return found


async def test_statements_are_named_and_counted(nodes: Nodes) -> None:
    plan = Plan()
    await insert(nodes, plan)
    assert plan.seen == ["BEGIN", INSERT[:40], "COMMIT"]
    assert await stored(nodes) == 1


@pytest.mark.parametrize(
    ("fault", "position", "count"),
    [
        (Fault.STATEMENT, 1, 0),
        (Fault.ANSWER, 1, 0),
        (Fault.REFUSED, 1, 0),
        (Fault.STATEMENT, 2, 0),
        (Fault.ANSWER, 2, 1),
        (Fault.LATE, 2, 1),
        (Fault.AWAY, 2, 0),
        (Fault.GONE, 2, 1),
        (Fault.REFUSED, 2, 0),
    ],
)
async def test_a_fault_does_what_its_name_says(
    nodes: Nodes, fault: Fault, position: int, count: int
) -> None:
    with pytest.raises(DatabaseError):
        await insert(nodes, Plan(fault, position))
    await nodes.proxy.arrived()
    assert await stored(nodes) == count


async def test_the_other_node_works_before_the_client_learns_of_the_fault(nodes: Nodes) -> None:
    seen: list[int] = []

    async def look() -> None:
        seen.append(await stored(nodes))

    with pytest.raises(CommitUnknownError):
        await insert(nodes, Plan(Fault.ANSWER, 2, meanwhile=look))
    assert seen == [1]


async def test_a_delayed_statement_lets_the_other_node_go_first(nodes: Nodes) -> None:
    async def other() -> None:
        await nodes.direct.writer.execute("DELETE FROM setting WHERE name = 'proxy'")

    await nodes.direct.writer.execute(INSERT)
    await insert(nodes, Plan(Fault.DELAY, 1, meanwhile=other))
    assert await stored(nodes) == 1
