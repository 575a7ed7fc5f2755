"""Tampering with the facts that are events themselves: each column is covered, each row named."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import NamedTuple
from uuid import UUID

import asyncpg
import pytest

from conftest import Clock, owner_dsn
from event_ground import seal_all
from job_ground import ask, make_intake
from postdate.intake.job_batch import Accepted
from postdate.model.ids import new_id
from postdate.model.setting import Settings
from postdate.publisher.verify import Finding, verify
from postdate.store import payment as payment_store
from postdate.store import seal
from postdate.store.account import key_of
from postdate.store.database import Database
from postdate.store.embedded import Embedded
from postdate.store.lane import LaneDirectory
from postdate.store.payment import NewPayment
from postdate.store.seal import Window
from postdate.worker.retention import Retention

DUE = datetime(2031, 1, 2, tzinfo=UTC)
DAY = 24 * 3600
KEYS = {"bucket", "tenant_id", "job_id", "payment_id"}
OTHER = {
    "smallint": "{0} + 1",
    "integer": "coalesce({0}, 0) + 1",
    "bigint": "coalesce({0}, 0) + 1",
    "boolean": "NOT {0}",
    "text": "coalesce({0}, '') || 'x'",
    "bytea": "coalesce({0}, '') || 'x'",
    "uuid": "gen_random_uuid()",
    "jsonb": "coalesce({0}, '{{}}') || '{{\"x\": 1}}'",
    "timestamp with time zone": "coalesce({0}, clock()) + interval '1 microsecond'",
}
"""How to change a value of each type."""


class Facts(NamedTuple):
    """A sealed job and a sealed payment, and a connection that may do anything to them."""

    database: Database
    owner: asyncpg.Connection
    lanes: LaneDirectory
    tenant_id: int
    job_id: UUID
    payment_id: UUID

    async def findings(self) -> list[Finding]:
        report = await verify(self.database, {})
        return [each for each in report.findings if each.tenant_id == self.tenant_id]


@pytest.fixture
async def facts(
    server: Embedded, database: Database, database_name: str, tenant_id: int
) -> AsyncIterator[Facts]:
    lanes = LaneDirectory(database)
    [accepted] = await make_intake(database, lanes).accept([ask(tenant_id)])
    assert isinstance(accepted, Accepted)
    bucket = key_of(tenant_id, "a").bucket
    payment_id = new_id(bucket, database.unix_ms())
    async with database.write() as connection:
        row = NewPayment(bucket, tenant_id, payment_id, "a", "b", 5, DUE, hold=False, actor="me")
        await payment_store.accept(connection, [row])
    await seal_all(database)
    owner = await asyncpg.connect(owner_dsn(server, database_name))
    await owner.execute("SET search_path = postdate")
    for table in ("job", "payment"):
        await owner.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
        await owner.execute(f"ALTER TABLE {table} DROP CONSTRAINT IF EXISTS {table}_check")
    yield Facts(database, owner, lanes, tenant_id, accepted.job.job_id, payment_id)
    await owner.close()


@pytest.mark.parametrize("table", ["job", "payment"])
async def test_every_column_of_a_fact_is_sealed(facts: Facts, table: str) -> None:
    assert await facts.findings() == []
    subject = facts.job_id if table == "job" else facts.payment_id
    columns = await facts.owner.fetch(
        "SELECT attname, format_type(atttypid, NULL) FROM pg_attribute "
        "WHERE attrelid = $1::text::regclass AND attnum > 0 AND NOT attisdropped",
        table,
    )
    for name, kind in columns:
        if name in KEYS:
            continue
        change = "'release'" if name == "on_broken" else OTHER[kind].format(name)
        was = await facts.owner.fetchval(
            f"SELECT {name} FROM {table} WHERE {table}_id = $1", subject
        )
        await facts.owner.execute(
            f"UPDATE {table} SET {name} = {change} WHERE {table}_id = $1", subject
        )
        [found] = await facts.findings()
        assert (found.kind, found.event_id) == ("changed", subject), name
        await facts.owner.execute(
            f"UPDATE {table} SET {name} = $2 WHERE {table}_id = $1", subject, was
        )
    assert await facts.findings() == []


@pytest.mark.parametrize("table", ["job", "payment"])
async def test_a_deleted_fact_is_named(facts: Facts, table: str) -> None:
    subject = facts.job_id if table == "job" else facts.payment_id
    await facts.owner.execute(f"DELETE FROM {table} WHERE {table}_id = $1", subject)
    [found] = await facts.findings()
    assert (found.kind, found.event_id) == ("missing", subject)


async def test_a_fact_that_was_slipped_in_is_named(facts: Facts) -> None:
    slipped = new_id(5, facts.database.unix_ms() + 5)
    await facts.owner.execute(
        "INSERT INTO payment (bucket, tenant_id, payment_id, from_account, to_account, amount, "
        "due_at, hold) VALUES (5, $1, $2, 'a', 'b', 1, clock(), false)",
        facts.tenant_id,
        slipped,
    )
    [found] = await facts.findings()
    assert (found.kind, found.event_id) == ("unsealed", slipped)


async def test_what_was_pruned_stays_sealed_and_is_shown_as_pruned(
    facts: Facts, clock: Clock
) -> None:
    await facts.owner.execute(
        """WITH gone AS (DELETE FROM timer WHERE subject = $1 RETURNING *)
           INSERT INTO outcome (bucket, tenant_id, subject, attempt, status, due_at, finished_at)
           SELECT bucket, tenant_id, subject, 1, 'COMPLETED', due_at, clock() FROM gone""",
        facts.job_id,
    )
    await clock.advance(31 * DAY)
    retention = Retention(facts.database, facts.lanes, Settings())
    while await retention.run_once(1000):
        pass
    left = await facts.owner.fetchval("SELECT count(*) FROM job WHERE job_id = $1", facts.job_id)
    assert left == 0
    assert await facts.findings() == []
    window = Window(tenant_id=facts.tenant_id, after=0, upto=99, patterns=["job.%"], limit=9)
    async with facts.database.read(facts.tenant_id) as connection:
        [shown] = await seal.page(connection, window)
    assert (shown.event_id, shown.data) == (facts.job_id, '{"pruned": true}')
