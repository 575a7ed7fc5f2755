"""Tampering with the facts that are events themselves: each column is covered, each row named."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import NamedTuple
from uuid import UUID, uuid4

import asyncpg
import pytest

from conftest import Clock, owner_dsn
from postdate.core.ids import bucket_of, new_id
from postdate.core.setting.setting import Settings
from postdate.database.connection.database import Database
from postdate.database.embedded import Embedded
from postdate.event.spec.event import EventFilter, Sealed
from postdate.event.store import seal
from postdate.job.accept.request import AcceptedJob
from postdate.job.spec.verdict import DONE
from postdate.job.store import execution
from postdate.job.store.execution import HeldLease
from postdate.lane.store.lane import LaneDirectory
from postdate.lease import store as lease
from postdate.publisher.verify import ChainFinding, verify
from postdate.worker.retention import Retention
from support.bank import Bank, drain, settler
from support.event import seal_all
from support.job import ask, make_intake

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
DAY = 24 * 3600
KEYS = {"bucket", "tenant_id", "subject", "job_id", "payment_id"}
"""What the address of a fact names: with another one, the fact is missing."""

OTHER = {
    "smallint": "coalesce({0}, 0) + 1",
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

FACTS = {
    "a job": ("job", "job_id = $1", "job_id", "job.accepted"),
    "the end of a job": ("outcome", "subject = $1", "job_id", "job.completed"),
    "a payment": ("payment", "payment_id = $1", "payment_id", "payment.scheduled"),
    "the end of a payment": ("outcome", "subject = $1", "payment_id", "payment.completed"),
    "the transfer of a payment": (
        "transfer",
        "payment_id = $1",
        "payment_id",
        "payment.completed",
    ),
}
"""The table of each fact, how to find its row by which id, and the type of its event."""


class Facts(NamedTuple):
    """A job and a payment that have ended and are sealed, and a connection that may do anything."""

    database: Database
    owner: asyncpg.Connection
    lanes: LaneDirectory
    tenant_id: int
    job_id: UUID
    payment_id: UUID

    async def findings(self) -> list[ChainFinding]:
        report = await verify(self.database, {})
        return [each for each in report.findings if each.tenant_id == self.tenant_id]

    async def events(self, *patterns: str) -> dict[str, UUID]:
        """Give the ids of the sealed events by their types."""
        return {each.type: each.event_id for each in await self.shown(*patterns)}

    async def shown(self, *patterns: str) -> list[Sealed]:
        wanted = EventFilter(patterns=[*patterns])
        async with self.database.read(self.tenant_id) as connection:
            return (await seal.read_after(connection, self.tenant_id, wanted, 0, 99)).events


@pytest.fixture
async def facts(
    server: Embedded, database: Database, database_name: str, tenant_id: int
) -> AsyncIterator[Facts]:
    lanes = LaneDirectory(database)
    job_id = await _worked(database, lanes, tenant_id)
    bank = Bank(database, tenant_id)
    await bank.open({"a": 100, "b": 0})
    payment_id = await bank.due("a", "b", 5)
    await drain(settler(database))
    await seal_all(database)
    owner = await asyncpg.connect(owner_dsn(server, database_name))
    await owner.execute("SET search_path = postdate")
    for table in ("job", "payment", "outcome", "transfer"):
        await owner.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
        checks = await owner.fetch(
            "SELECT conname FROM pg_constraint WHERE conrelid = $1::text::regclass "
            "AND contype = 'c'",
            table,
        )
        for row in checks:
            await owner.execute(f"ALTER TABLE {table} DROP CONSTRAINT {row[0]}")
    yield Facts(database, owner, lanes, tenant_id, job_id, payment_id)
    await owner.close()


async def _worked(database: Database, lanes: LaneDirectory, tenant_id: int) -> UUID:
    """Accept a job, claim it and end it."""
    [accepted] = await make_intake(database, lanes).accept([ask(tenant_id)])
    assert isinstance(accepted, AcceptedJob)
    job_id = accepted.job.job_id
    [lane] = await lanes.of_tenant(tenant_id)
    async with database.write() as connection:
        [taken] = await lease.take(
            connection,
            bucket_of(job_id),
            lane,
            low=LONG_AGO,
            limit=1,
            lease_seconds=60,
            claimed_by=uuid4(),
        )
        held = HeldLease(taken.subject, taken.token, taken.attempt)
        assert await execution.end(connection, [(held, DONE)], reporter=None) == [job_id]
    return job_id


@pytest.mark.parametrize("name", FACTS)
async def test_every_column_of_a_fact_is_sealed(facts: Facts, name: str) -> None:
    table, where, key, kind = FACTS[name]
    assert await facts.findings() == []
    events = await facts.events("job.%", "payment.%")
    subject = getattr(facts, key)
    columns = await facts.owner.fetch(
        "SELECT attname, format_type(atttypid, NULL) FROM pg_attribute "
        "WHERE attrelid = $1::text::regclass AND attnum > 0 AND NOT attisdropped",
        table,
    )
    for column, of_type in columns:
        if column in KEYS or (table, column, kind) == (
            "outcome",
            "transfer_id",
            "payment.completed",
        ):
            continue
        change = OTHER[of_type].format(column)
        was = await facts.owner.fetchrow(f"SELECT * FROM {table} WHERE {where}", subject)
        assert was is not None
        back = await _change(facts, table, (where, subject), column, change)
        found = await facts.findings()
        first = [(one.kind, one.event_id) for one in found[:1]]
        assert first == [("changed", events[kind])], column
        await facts.owner.execute(back, was[column])
    assert await facts.findings() == []


async def _change(
    facts: Facts, table: str, where: tuple[str, UUID], column: str, change: str
) -> str:
    """Change a value; give the statement that changes it back."""
    place = await facts.owner.fetchrow(
        f"UPDATE {table} SET {column} = {change} WHERE {where[0]} RETURNING tableoid, ctid::text",
        where[1],
    )
    assert place is not None
    row = f"tableoid = {place[0]} AND ctid = '{place[1]}'"
    return f"UPDATE {table} SET {column} = $1 WHERE {row}"


@pytest.mark.parametrize("name", FACTS)
async def test_a_deleted_fact_is_named(facts: Facts, name: str) -> None:
    table, where, key, kind = FACTS[name]
    events = await facts.events("job.%", "payment.%")
    await facts.owner.execute(f"DELETE FROM {table} WHERE {where}", getattr(facts, key))
    found, *_ = await facts.findings()
    expected = "changed" if table == "transfer" else "missing"
    assert (found.kind, found.event_id) == (expected, events[kind])


async def test_a_fact_that_was_slipped_in_is_named(facts: Facts) -> None:
    slipped = new_id(5, facts.database.unix_ms() + 5)
    await facts.owner.execute(
        "INSERT INTO payment (bucket, to_bucket, tenant_id, payment_id, from_account, to_account, "
        "amount, due_at, hold) VALUES (5, 6, $1, $2, 'a', 'b', 1, clock(), false)",
        facts.tenant_id,
        slipped,
    )
    [found] = await facts.findings()
    assert (found.kind, found.event_id) == ("unsealed", slipped)


async def test_what_was_pruned_stays_sealed_and_is_shown_as_pruned(
    facts: Facts, clock: Clock
) -> None:
    events = await facts.events("job.%")
    await clock.advance(31 * DAY)
    retention = Retention(facts.database, Settings())
    while await retention.run_once(1000):
        pass
    left = await facts.owner.fetchval("SELECT count(*) FROM job WHERE job_id = $1", facts.job_id)
    assert left == 0
    assert await facts.findings() == []
    shown = await facts.shown("job.%")
    assert [one.event_id for one in shown] == [events["job.accepted"], events["job.completed"]]
    assert {one.data for one in shown} == {'{"pruned": true}'}
