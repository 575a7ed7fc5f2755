"""Every proof holds on a ledger that was used, and fails on one that was tampered with."""

from collections.abc import AsyncIterator

import asyncpg
import pytest
from prometheus_client import CollectorRegistry

from postdate.core.ids import bucket_of, hash_bucket
from postdate.core.setting.setting import Settings
from postdate.database.connection.database import Database
from postdate.database.embedded import Embedded
from postdate.ledger.prove import prove, reconcile_all
from postdate.proof.prove import CHECKS
from postdate.prover.meter import ProofMeter
from postdate.prover.prover import Prover
from support.bank import Bank, drain, settler


@pytest.fixture
async def bank(database: Database, tenant_id: int) -> Bank:
    """Money moved, failed, waits; something is held."""
    bank = Bank(database, tenant_id)
    await bank.open({"a": 100, "b": 50, "c": 0})
    await bank.due("a", "b", 10)
    await bank.due("b", "c", 20)
    await bank.due("c", "a", 1000, hold=False)
    await drain(settler(database))
    await bank.due("a", "c", 30, ago=-3600)
    return bank


@pytest.fixture
async def vandal(server: Embedded, database_name: str) -> AsyncIterator[asyncpg.Connection]:
    """Somebody with a superuser's rights, who switches the guards off."""
    connection = await asyncpg.connect(server.credentials.superuser_dsn(database_name))
    await connection.execute("SET search_path = postdate; SET session_replication_role = replica")
    yield connection
    await connection.close()


async def test_a_used_ledger_proves(bank: Bank) -> None:
    proof = await prove(bank.database, bank.tenant_id)
    assert proof.findings == []
    assert proof.proved == list(CHECKS)
    assert await reconcile_all(bank.database, bank.tenant_id) == []


TAMPERINGS = {
    "an amount changed": (
        "UPDATE transfer SET amount = amount + 1 WHERE tenant_id = $1 AND to_account = 'c'",
        {"versions_have_no_gaps", "payment_moved_once", "transfer_has_payment"},
    ),
    "a balance changed": (
        "UPDATE account SET balance = balance + 5 WHERE tenant_id = $1 AND account_id = 'b'",
        {"ledger_sums_to_zero", "balance_is_its_entries"},
    ),
    "a transfer removed": (
        "DELETE FROM transfer WHERE tenant_id = $1 AND to_account = 'b' AND to_version = 2",
        {"versions_have_no_gaps", "balance_is_its_entries", "payment_moved_once"},
    ),
    "a hold forgotten": (
        "UPDATE account SET held = 0 WHERE tenant_id = $1 AND account_id = 'a'",
        {"held_is_open_payments"},
    ),
    "a timer lost": (
        "DELETE FROM timer WHERE tenant_id = $1",
        {"held_is_open_payments", "payment_is_open_or_ended"},
    ),
    "an outcome lost": (
        "DELETE FROM outcome WHERE tenant_id = $1 AND status = 'FAILED'",
        {"payment_is_open_or_ended", "events_are_legal"},
    ),
    "an outcome turned": (
        "UPDATE outcome SET status = 'CANCELLED' WHERE tenant_id = $1 AND status = 'FAILED'",
        {"events_are_legal"},
    ),
    "a payment removed": (
        "DELETE FROM payment WHERE tenant_id = $1 AND to_account = 'c' AND amount = 30",
        {"held_is_open_payments", "timer_has_payment"},
    ),
    "an event repeated": (
        """INSERT INTO event (bucket, tenant_id, subject, event_id, type)
           SELECT bucket, tenant_id, subject, gen_random_uuid(), type FROM event
            WHERE tenant_id = $1 AND type = 'payment.failed'""",
        {"events_are_legal"},
    ),
}


@pytest.mark.parametrize("name", TAMPERINGS)
async def test_prove_names_the_checks_that_a_tampering_breaks(
    bank: Bank, vandal: asyncpg.Connection, name: str
) -> None:
    statement, contradicted = TAMPERINGS[name]
    await vandal.execute(statement, bank.tenant_id)
    proof = await prove(bank.database, bank.tenant_id)
    assert {finding.check for finding in proof.findings} == contradicted, proof.findings
    assert {finding.tenant_id for finding in proof.findings} == {bank.tenant_id}


async def test_reconciling_reports_what_is_forgotten(
    bank: Bank, vandal: asyncpg.Connection
) -> None:
    late = await bank.due("a", "b", 1, ago=120)
    stuck = await bank.due("a", "b", 2)
    await vandal.execute("UPDATE timer SET due_at = 'infinity' WHERE subject = $1", stuck)
    await vandal.execute(
        "UPDATE account SET balance = 7 WHERE tenant_id = $1 AND account_id = 'c'", bank.tenant_id
    )
    found = await reconcile_all(bank.database, bank.tenant_id)
    assert {(f.check, f.subject) for f in found} == {
        ("overdue", str(late)),
        ("dead_lettered", str(stuck)),
        ("balance_follows_entries", "c"),
    }
    registry = CollectorRegistry()
    prover = Prover(bank.database, Settings(), ProofMeter(registry))
    account = hash_bucket(bank.tenant_id, "c")
    for bucket in {bucket_of(late), bucket_of(stuck), account}:
        await prover.prove_bucket(bucket)
    for finding in ("overdue", "dead_lettered", "balance_follows_entries"):
        told = registry.get_sample_value("postdate_proof_findings", {"finding": finding})
        assert told is not None
        assert told >= 1
