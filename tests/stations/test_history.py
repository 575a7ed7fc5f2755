"""Old weeks leave on request and by retention; what is young, needed or money stays."""

from datetime import UTC, datetime, timedelta

import asyncpg
import pytest

from conftest import owner_dsn
from postdate.account.store.account import key_of
from postdate.core.ids import new_id
from postdate.database.connection.database import Database
from postdate.database.connection.error import PartitionRefusedError
from postdate.database.embedded import Embedded
from postdate.ledger.prove import prove
from postdate.monitor.store import history
from postdate.node import history as command
from postdate.node.node import Node
from postdate.node.settings import ProcessSettings
from support.bank import Bank, drain, settings, settler

OLD = datetime(2024, 1, 1, tzinfo=UTC)  # a Monday


def name(table: str, week: int = 0) -> str:
    return f"{table}_{OLD + timedelta(weeks=week):%Y%m%d}"


@pytest.fixture(scope="module")
async def old_weeks(server: Embedded, database_name: str) -> None:
    connection = await asyncpg.connect(owner_dsn(server, database_name))
    for table in ("attempt", "event", "payment", "transfer", "outcome"):
        for week in range(3):
            monday = OLD + timedelta(weeks=week)
            await connection.execute(
                "SELECT postdate.partition_ensure($1::text::regclass, $2)",
                f"postdate.{table}",
                monday,
            )
    await connection.close()


async def refused(database: Database, partition: str, *, money: bool = False) -> str:
    with pytest.raises(PartitionRefusedError) as caught:
        async with database.write() as connection:
            await history.detach(connection, partition, money=money)
    assert caught.value.sqlstate == "PD003"
    return str(caught.value)


@pytest.mark.usefixtures("old_weeks")
async def test_what_must_stay_is_refused(database: Database, tenant_id: int) -> None:
    bank = Bank(database, tenant_id)
    await bank.open({"a": 5, "b": 0})
    bucket = key_of(tenant_id, "a").bucket
    week_two = int((OLD + timedelta(weeks=1, days=2)).timestamp() * 1000)
    await bank.due("a", "b", 5, ago=-3600, payment_id=new_id(bucket, week_two))
    assert "holds money" in await refused(database, name("payment"))
    assert "still has a timer" in await refused(database, name("payment", 1), money=True)
    assert "no attached" in await refused(database, "account")
    async with database.connection() as connection:
        rows = await history.page(connection)
    young = max(row.partition for row in rows if row.parent == "event")
    assert "younger" in await refused(database, young)
    with pytest.raises(PartitionRefusedError, match="not detached"):
        async with database.write() as connection:
            await history.drop(connection, name("event"))
    await database.writer.execute("DELETE FROM timer")


@pytest.mark.usefixtures("old_weeks")
async def test_a_week_of_money_leaves_when_asked_and_the_rest_still_proves(
    database: Database, tenant_id: int
) -> None:
    bank = Bank(database, tenant_id)
    await bank.open({"a": 50, "b": 0})
    await bank.due("a", "b", 5)
    await drain(settler(database))
    async with database.write() as connection:
        await history.detach(connection, name("transfer", 2), money=True)
    async with database.connection() as connection:
        floor = await history.floor(connection)
        found = {row.partition: row for row in await history.page(connection)}
    assert floor.int >> 80 == int((OLD + timedelta(weeks=3)).timestamp() * 1000)
    assert found[name("transfer", 2)].detached_at is not None
    assert (await prove(database, tenant_id)).findings == []
    async with database.write() as connection:
        await history.drop(connection, name("transfer", 2))
    gone = await database.writer.fetchval("SELECT to_regclass($1)", name("transfer", 2))
    assert gone is None


@pytest.mark.usefixtures("old_weeks")
async def test_retention_detaches_attempts_and_events_only(database: Database) -> None:
    node = Node(settings=ProcessSettings(), database=database, roles=["settlement"])
    loop = command.loops(node)[0]
    await loop._run_once(1)
    async with database.connection() as connection:
        assert await history.list_older(connection, ["event"], 365), "kept for ever by default"
    node.runtime = settings(**{"history.retention_days": 365})
    await loop._run_once(1)
    async with database.connection() as connection:
        assert await history.list_older(connection, ["attempt", "event"], 365) == []
        assert len(await history.list_older(connection, ["payment", "outcome"], 365)) == 6
