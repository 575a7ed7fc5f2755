"""A settlement that dies between any two of its statements has not happened."""

import random
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest

from postdate.database.connection.database import Connection, Database
from postdate.database.connection.error import (
    CommitUnknownError,
    DatabaseError,
    TransientError,
    UnavailableError,
)
from postdate.database.embedded import Embedded
from postdate.ledger.prove import prove
from postdate.runtime.retry import RetryLimits
from postdate.settlement.settler import Settler
from postdate.tenant.store import tenant as tenant_store
from support.bank import Bank, DuePayment, drain, settings, settler
from support.transaction_faults import ERRORS, FaultyDatabase, Killer, LossyDatabase, nothing


@pytest.fixture(autouse=True)
async def quiet(database: Database) -> AsyncIterator[None]:
    """Leave nothing that would come due during the next test."""
    yield
    await database.writer.execute("DELETE FROM timer")


@pytest.fixture
async def killer(server: Embedded) -> AsyncIterator[Killer]:
    connection = await asyncpg.connect(server.credentials.superuser_dsn("postgres"))
    yield Killer(connection)
    await connection.close()


async def prepare(database: Database, tenant_id: int) -> tuple[Bank, list[UUID]]:
    """Payments that make a settlement use every statement it has."""
    bank = Bank(database, tenant_id)
    await bank.open({"a": 100, "b": 0, "c": 0})
    at = await bank.now()
    later = at + timedelta(days=9)
    wishes = [
        DuePayment("a", "b", 10, at - timedelta(seconds=9)),
        DuePayment("b", "c", 10, at - timedelta(seconds=8), hold=False),
        DuePayment("c", "a", 99, at - timedelta(seconds=7), hold=False),
        DuePayment("c", "b", 99, at - timedelta(seconds=6), hold=False, retry_until=later),
    ]
    return bank, await bank.pay(wishes)


async def new_tenant(database: Database) -> int:
    async with database.write() as connection:
        created = await tenant_store.create(connection, f"t-{uuid4().hex}")
    assert created is not None
    return created


async def state(bank: Bank, payments: list[UUID]) -> Any:
    outcomes = [await bank.outcome(payment) for payment in payments]
    return (
        await bank.balances(),
        [outcome and outcome["status"] for outcome in outcomes],
        [await bank.events(payment) for payment in payments],
    )


def faulty_settler(database: Database) -> Settler:
    # A retry stays out of the way of the next round.
    return Settler(database, settings(**{"payment.retry_seconds": 3000.0}), uuid4())


async def statements(database: Database, tenant_id: int) -> int:
    """Count what one settlement sends, its commit included."""
    counted = FaultyDatabase(database, nothing)
    await prepare(database, tenant_id)
    assert await drain(faulty_settler(counted)) == 4
    return counted.count


async def test_a_kill_between_any_two_statements_leaves_nothing(
    database: Database, tenant_id: int, killer: Killer, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = await statements(database, tenant_id)
    assert count > 10
    for victim in range(count):
        tenant = await new_tenant(database)
        bank, payments = await prepare(database, tenant)
        before = await state(bank, payments)

        async def fault(connection: Connection, number: int, victim: int = victim) -> None:
            if number == victim:
                await killer.kill(connection)

        # Without the patience that would hide the kill.
        monkeypatch.setattr("postdate.settlement.settler.TRIES", RetryLimits(transient=1))
        with pytest.raises((CommitUnknownError, UnavailableError)):
            await faulty_settler(FaultyDatabase(database, fault)).run_once()
        assert await state(bank, payments) == before, f"statement {victim} left something behind"
        monkeypatch.undo()
        assert await drain(faulty_settler(database)) == 4
        assert (await state(bank, payments))[1] == ["COMPLETED", "COMPLETED", "FAILED", None]
        assert (await prove(database, tenant)).findings == []


async def test_a_kill_among_batches_under_way_leaves_each_whole_or_undone(
    database: Database, killer: Killer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Payments with holds leave the queue before their accounts change, three batches in turn."""
    monkeypatch.setattr("postdate.settlement.settler.TRIES", RetryLimits(transient=1))
    for victim in range(24):
        bank = Bank(database, await new_tenant(database))
        await bank.open({"a": 100, "b": 0, "c": 0})
        at = await bank.now()
        pairs = [("a", "b"), ("a", "c")] * 3
        payments = await bank.pay(
            [DuePayment(*pair, 1, at - timedelta(seconds=9 - n)) for n, pair in enumerate(pairs)]
        )

        async def fault(connection: Connection, number: int, victim: int = victim) -> None:
            if number == victim:
                await killer.kill(connection)

        faulty = FaultyDatabase(database, fault)
        with suppress(CommitUnknownError, UnavailableError):
            assert await settler(faulty, 2).run_once() == 6
        done = [await bank.outcome(payment) is not None for payment in payments]
        assert done[0::2] == done[1::2], "half of a batch was settled"
        balances = await bank.balances()
        assert balances["a"][:2] == (100 - sum(done), 6 - sum(done))
        assert (await prove(database, bank.tenant_id)).findings == []
        assert await drain(settler(database, 2)) == 6 - sum(done)
        assert (await prove(database, bank.tenant_id)).findings == []
    assert faulty.count < victim, "more statements than were killed"


async def test_a_kill_is_survived_within_the_same_run(
    database: Database, tenant_id: int, killer: Killer
) -> None:
    bank, payments = await prepare(database, tenant_id)

    async def fault(connection: Connection, number: int) -> None:
        if number in {3, 9, 14}:
            await killer.kill(connection)

    assert await faulty_settler(FaultyDatabase(database, fault)).run_once() == 4
    assert (await state(bank, payments))[1] == ["COMPLETED", "COMPLETED", "FAILED", None]


async def test_forced_errors_on_any_statement_change_nothing_in_the_end(
    database: Database, tenant_id: int
) -> None:
    dice = random.Random(7)

    async def fault(_: Connection, __: int) -> None:
        if dice.random() < 0.05:
            raise dice.choice(ERRORS)("forced")

    bank = Bank(database, tenant_id)
    await bank.open({"a": 10_000, "b": 0})
    at = await bank.now()
    await bank.pay([DuePayment("a", "b", 1, at - timedelta(seconds=i)) for i in range(300)])
    one = faulty_settler(FaultyDatabase(database, fault))
    settled = failures = 0
    while settled < 300:
        try:
            settled += await one.run_once(10)
        except DatabaseError as error:
            failures += 1
            if not isinstance(error, TransientError) or failures > 100:
                raise
    balances = await bank.balances()
    assert (balances["a"], balances["b"]) == ((9700, 0, 301), (300, 0, 300))
    assert (await prove(database, tenant_id)).findings == []


async def test_a_commit_of_unknown_end_is_settled_once(database: Database, tenant_id: int) -> None:
    bank, payments = await prepare(database, tenant_id)
    lossy = LossyDatabase(database)
    await drain(faulty_settler(lossy))
    assert lossy.commits >= 2
    assert (await state(bank, payments))[1] == ["COMPLETED", "COMPLETED", "FAILED", None]
    assert (await prove(database, tenant_id)).findings == []
