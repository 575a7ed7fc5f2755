"""Rounds of proofs: each bucket in its turn, from what is proved on, and the rest once more."""

from collections.abc import AsyncIterator
from uuid import UUID, uuid4

import asyncpg
import pytest

from postdate.core.ids import BUCKETS
from postdate.core.setting.setting import Settings, Stored
from postdate.database.connection.database import Database
from postdate.database.embedded import Embedded
from postdate.prover.prover import Prover
from postdate.tenant.change.tenant import Tenants
from support.bank import Bank, drain, settler
from support.event import seal_all


def prover(database: Database, **values: float) -> Prover:
    """Make a prover with settings of its own."""
    named = {f"proof.{name}": value for name, value in values.items()}
    known = {(0, name): Stored(0, name, value) for name, value in named.items()}
    return Prover(database, Settings(known), clock=lambda: 0.0)


@pytest.fixture
async def vandal(server: Embedded, database_name: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(server.credentials.superuser_dsn(database_name))
    await connection.execute("SET search_path = postdate; SET session_replication_role = replica")
    yield connection
    await connection.close()


@pytest.fixture
async def tenant_id(database: Database) -> int:
    """A tenant of which its chain tells."""
    return await Tenants(database).create(f"told-{uuid4().hex}")


@pytest.fixture
async def payment(database: Database, tenant_id: int) -> UUID:
    """A payment that was settled and sealed."""
    bank = Bank(database, tenant_id)
    await bank.open({"a": 100, "b": 50})
    made = await bank.due("a", "b", 10)
    await drain(settler(database))
    await seal_all(database, 500)
    return made


async def test_two_nodes_take_turns_and_wait_for_the_pause(database: Database) -> None:
    eager, patient = prover(database, round_seconds=1.0), prover(database, round_seconds=86400.0)
    before = await database.writer.fetchval("SELECT bucket FROM proof_round")
    await database.writer.execute("UPDATE proof_round SET taken_at = 'epoch'")
    await patient.run_once()
    await patient.run_once()
    after = await database.writer.fetchval("SELECT bucket FROM proof_round")
    assert after == (before + 1) % BUCKETS, "the second has to wait"
    await database.writer.execute("UPDATE proof_round SET taken_at = 'epoch'")
    await eager.run_once()
    last = await database.writer.fetchval("SELECT bucket FROM proof_round")
    assert last == (before + 2) % BUCKETS, "nodes share one round"


async def test_a_round_that_ends_is_noted(database: Database) -> None:
    await database.writer.execute("UPDATE proof_round SET bucket = 62, taken_at = 'epoch'")
    await prover(database).run_once()
    noted = await database.writer.fetchval("SELECT count(*) FROM audit_run WHERE name = 'round'")
    assert noted == 1


async def test_what_is_proved_is_not_walked_again_but_for_its_share(
    database: Database, tenant_id: int, payment: UUID, vandal: asyncpg.Connection
) -> None:
    one, bucket = prover(database), tenant_id % BUCKETS
    assert [f for f in await one.prove_bucket(bucket) if f.tenant_id == tenant_id] == []
    row = await database.writer.fetchrow(
        "SELECT p.position AS proved, c.position AS sealed FROM chain_proof p "
        "JOIN chain c USING (bucket, tenant_id) WHERE p.tenant_id = $1",
        tenant_id,
    )
    assert row is not None
    assert row["proved"] == row["sealed"] > 0
    await vandal.execute("UPDATE payment SET description = 'x' WHERE payment_id = $1", payment)
    found = [f for f in await one.prove_bucket(bucket) if f.tenant_id == tenant_id]
    assert [(f.check, f.subject) for f in found] == [("chain_changed", str(payment))]


async def test_a_chain_that_got_shorter_than_what_is_proved_is_named(
    database: Database, tenant_id: int, payment: UUID, vandal: asyncpg.Connection
) -> None:
    assert payment
    one, bucket = prover(database), tenant_id % BUCKETS
    await one.prove_bucket(bucket)
    await vandal.execute("DELETE FROM seal WHERE tenant_id = $1", tenant_id)
    await vandal.execute(
        "UPDATE chain SET position = 0, hash = decode(repeat('00', 32), 'hex') "
        "WHERE tenant_id = $1",
        tenant_id,
    )
    found = [f.check for f in await one.prove_bucket(bucket) if f.tenant_id == tenant_id]
    assert found == ["chain_cut_off"]
