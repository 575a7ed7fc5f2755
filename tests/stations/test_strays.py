"""Rows in default partitions: they stop the week they belong to and nothing else, until mended."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from prometheus_client import CollectorRegistry

from conftest import Clock
from postdate.account.store.account import key_of
from postdate.cli.commands import history as command
from postdate.core.ids import new_id
from postdate.database import partition
from postdate.database.connection.database import Database
from postdate.database.connection.error import PermissionDeniedError
from postdate.lane.store.lane import LaneDirectory
from postdate.ledger.prove import prove
from postdate.monitor.view.vitals import Vitals
from postdate.node.node import Node
from postdate.node.settings import ProcessSettings
from support.bank import Bank, drain, settler
from support.log import capture_logs

WEEKS = 8
AHEAD = timedelta(weeks=WEEKS + 1)


async def monday(database: Database) -> datetime:
    """The first week that has no partition yet."""
    now: datetime = await database.writer.fetchval("SELECT clock()")
    today = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return today - timedelta(days=today.weekday()) + AHEAD


async def tables(database: Database, name: str) -> set[str]:
    rows = await database.writer.fetch(
        "SELECT tableoid::regclass::text FROM payment WHERE payment_id::text = $1", name
    )
    return {row[0].removeprefix("postdate.") for row in rows}


async def made(database: Database, week: datetime) -> set[str]:
    """The tables that have a partition for a week."""
    rows = await database.writer.fetch(
        "SELECT parent FROM history_partition WHERE monday = $1", week
    )
    return {row[0] for row in rows}


@pytest.fixture
async def stray(database: Database, tenant_id: int) -> tuple[UUID, datetime]:
    """A payment whose id is of a week without a partition, as under a clock gone wrong."""
    bank, week = Bank(database, tenant_id), await monday(database)
    await bank.open({"a": 5, "b": 0})
    at = int((week + timedelta(days=2)).timestamp() * 1000)
    payment_id = new_id(key_of(tenant_id, "a").bucket, at)
    await bank.due("a", "b", 5, payment_id=payment_id)
    return payment_id, week


async def test_a_stray_row_stops_its_own_week_of_its_own_table_and_mending_moves_it(
    database: Database, tenant_id: int, stray: tuple[UUID, datetime]
) -> None:
    payment_id, week = stray
    assert await tables(database, str(payment_id)) == {"payment_default"}
    async with database.connection() as connection:
        done = await partition.create_ahead(connection, WEEKS + 2)
    blocked = f"payment_{week:%Y%m%d}"
    assert done.blocked == [blocked]
    everything = await made(database, week + timedelta(weeks=1))
    assert "payment" in everything
    assert await made(database, week) == everything - {"payment"}
    async with database.connection() as connection:
        found = await partition.list_misplaced(connection)
    assert found == [partition.Strays("payment", week, 1)]
    dry = await command._mended(database, found[0], dry_run=True)
    assert (dry["rows"], dry["moved"]) == (1, 0)
    told = await command._mended(database, found[0], dry_run=False)
    assert told == {"table": "payment", "week": week, "rows": 1, "moved": 1}
    assert await tables(database, str(payment_id)) == {blocked}
    async with database.connection() as connection:
        assert (await partition.create_ahead(connection, WEEKS + 2)).blocked == []
        assert await partition.list_misplaced(connection) == []
    await drain(settler(database))
    assert (await Bank(database, tenant_id).balances())["b"][0] == 5
    assert (await prove(database, tenant_id)).findings == []
    guarded = await database.writer.fetchval(
        "SELECT relrowsecurity AND relforcerowsecurity FROM pg_class WHERE relname = $1", blocked
    )
    assert guarded


async def test_a_moved_fact_is_as_immutable_as_before_and_seen_by_its_tenant_alone(
    database: Database, tenant_id: int
) -> None:
    week = await monday(database) + timedelta(weeks=10)
    at = int(week.timestamp() * 1000) + 5
    bank = Bank(database, tenant_id)
    await bank.open({"c": 5, "d": 0})
    payment_id = new_id(key_of(tenant_id, "c").bucket, at)
    await bank.due("c", "d", 5, ago=-3600, payment_id=payment_id)
    async with database.write() as connection:
        assert await partition.move_misplaced(connection, "payment", week) == 1
    count = "SELECT count(*) FROM payment WHERE payment_id = $1"
    for reader, seen in ((tenant_id, 1), (tenant_id + 1, 0)):
        async with database.read(reader) as connection:
            assert await connection.fetchval(count, payment_id) == seen
    with pytest.raises(PermissionDeniedError):
        await database.writer.execute("DELETE FROM payment WHERE payment_id = $1", payment_id)


async def test_the_metric_names_the_table_and_the_log_the_weeks(
    database: Database, tenant_id: int, clock: Clock
) -> None:
    week = await monday(database) + timedelta(weeks=60)
    at = int(week.timestamp() * 1000)
    bank = Bank(database, tenant_id)
    await bank.open({"e": 5, "f": 0})
    bucket = key_of(tenant_id, "e").bucket
    await bank.due("e", "f", 5, ago=-3600, payment_id=new_id(bucket, at))
    registry = CollectorRegistry()
    vitals = Vitals(registry, database, LaneDirectory(database))
    await vitals.run_once()
    labels = {"table": "payment"}
    assert registry.get_sample_value("postdate_partition_stray_rows", labels) == 1
    node = Node(settings=ProcessSettings(), database=database, roles=["worker"])
    await clock.advance(timedelta(weeks=65).total_seconds())
    with capture_logs() as lines:
        assert await node.make_partitions() == 0
    [blocked] = [line for line in lines if line["event"] == "partition.blocked"]
    assert f"payment_{week:%Y%m%d}" in str(blocked)
    assert await made(database, week + timedelta(weeks=1)) > {"event", "payment"}
