"""A commit that took its time: what it brings is neither overtaken nor overlooked."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from uuid import UUID

import pytest

from conftest import Clock, eventually
from postdate.account.store.account import key_of
from postdate.core.ids import new_id
from postdate.database.connection.database import TRANSACTION_SECONDS, Database
from postdate.payment.store import payment as payment_store
from postdate.payment.store.payment import NewPayment
from postdate.settlement.settler import Settler
from support.bank import Bank, DuePayment, settler


@pytest.fixture(autouse=True)
async def quiet(database: Database) -> AsyncIterator[None]:
    """Leave nothing that would come due during the next test."""
    yield
    await database.writer.execute("DELETE FROM timer")


@pytest.fixture
async def bank(database: Database, tenant_id: int) -> Bank:
    made = Bank(database, tenant_id)
    await made.open({"alice": 10, "bob": 0, "carol": 0})
    return made


@asynccontextmanager
async def accepting(bank: Bank) -> AsyncIterator[UUID]:
    """Accept a payment of 10 that is due in a second; the commit comes at the end."""
    bucket = key_of(bank.tenant_id, "alice").bucket
    payment_id = new_id(bucket, bank.database.unix_ms())
    due = await bank.now() + timedelta(seconds=1)
    new = NewPayment(
        bucket, bank.tenant_id, payment_id, "alice", "bob", 10, due, hold=False, retry_until=None
    )
    async with bank.database.write() as connection:
        await payment_store.accept(connection, [new])
        yield payment_id


async def looked(one: Settler, clock: Clock, seconds: float) -> None:
    """Let time pass, with a settler that looks again and again."""
    for _ in range(4):
        await clock.advance(seconds / 4)
        assert await one.run_once() == 0


@pytest.mark.parametrize("seconds", [4.0, TRANSACTION_SECONDS - 1.0])
async def test_a_payment_whose_accept_was_slow_is_not_overtaken(
    bank: Bank, clock: Clock, seconds: float
) -> None:
    one = settler(bank.database)
    async with accepting(bank) as slow:
        await looked(one, clock, seconds)
    at = await bank.now()
    (later,) = await bank.pay(
        [DuePayment("alice", "carol", 10, at - timedelta(seconds=0.5), hold=False)]
    )

    async def settled() -> bool:
        await one.run_once()
        return bool(await bank.outcome(later))

    await eventually(settled, seconds=5.0)
    assert (await bank.outcome(slow))["status"] == "COMPLETED"
    assert (await bank.outcome(later))["code"] == "insufficient_funds"


async def test_a_payment_whose_accept_was_slow_is_found_within_seconds(
    bank: Bank, clock: Clock
) -> None:
    one = settler(bank.database)
    async with accepting(bank) as slow:
        await looked(one, clock, 8.0)

    async def settled() -> bool:
        await one.run_once()
        return bool(await bank.outcome(slow))

    await eventually(settled, seconds=5.0)
