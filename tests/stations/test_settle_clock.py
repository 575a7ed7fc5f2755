"""A step back of the database's clock does no harm to settlement."""

from datetime import timedelta
from uuid import UUID, uuid4

import pytest

from conftest import Clock
from postdate.core.ids import bucket_of
from postdate.database.connection.database import Database
from postdate.runtime import node as node_store
from postdate.runtime.share import preferred_buckets
from postdate.settlement.settler import Settler
from support.bank import Bank, DuePayment, drain, settings, settler

KILLED = uuid4()


@pytest.fixture
async def bank(database: Database, tenant_id: int) -> Bank:
    bank = Bank(database, tenant_id)
    await bank.open({"a": 100, "b": 0})
    return bank


async def test_after_a_step_back_what_is_due_then_is_settled(bank: Bank, clock: Clock) -> None:
    one = settler(bank.database)
    await clock.advance(7200)
    await drain(one)
    await clock.advance(-7200)
    payment = await bank.due("a", "b", 1)
    assert await drain(one) == 1
    assert (await bank.outcome(payment))["status"] == "COMPLETED"


async def test_what_a_killed_node_preferred_is_settled_within_the_second(bank: Bank) -> None:
    """It counts as alive for ten seconds; what it preferred was left to it for one of them."""
    due_at = await bank.now() + timedelta(seconds=10)
    payment = (await bank.pay([DuePayment("a", "b", 1, due_at)]))[0]
    one = next(each for each in iter(uuid4, None) if not _prefers(each, KILLED, payment))
    async with bank.database.write() as connection:
        await node_store.beat(connection, KILLED, "n", ["settlement"], "1")
    restarted = Settler(bank.database, settings(), one)
    assert await restarted.run_once() == 0
    seconds = await restarted.next_due()
    assert seconds is not None
    assert await bank.now() + timedelta(seconds=seconds) <= due_at + timedelta(seconds=0.5)


def _prefers(node_id: UUID, other: UUID, payment_id: UUID) -> bool:
    return bucket_of(payment_id) in preferred_buckets(node_id, [other])
