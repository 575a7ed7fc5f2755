"""What a sealed payment costs to verify does not grow with the account it went to."""

import json
from datetime import timedelta
from typing import Any

import pytest

from postdate.database.connection.database import Database
from postdate.database.connection.query import query
from support.bank import Bank, DuePayment, drain, settler
from support.event import seal_all

pytestmark = pytest.mark.own_database("it seals the events of every tenant")

PAYMENTS = 400
MAX_BLOCKS = 20
"""Blocks read for one event: a look by key into each of its rows, and its part of the seal."""


def blocks(plan: dict[str, Any]) -> int:
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


async def test_a_transfer_is_found_by_its_key(database: Database, tenant_id: int) -> None:
    bank = Bank(database, tenant_id)
    await bank.open({"alice": 100_000, "hot": 0})
    due = await bank.now() - timedelta(seconds=1)
    await bank.pay([DuePayment("alice", "hot", 1, due) for _ in range(PAYMENTS)])
    await drain(settler(database))
    await seal_all(database, 1000)
    await database.writer.execute("ANALYZE transfer, outcome, payment, seal, event")
    async with database.writer.acquire() as connection:
        await connection.execute(f"PREPARE stored AS {query('seal_stored')}")
        found = await connection.fetchval(
            f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE stored ({tenant_id}, 0, 100)"
        )
        await connection.execute("DEALLOCATE stored")
        events = await connection.fetchval(
            "SELECT sum(cardinality(kinds)) FROM seal WHERE tenant_id = $1", tenant_id
        )
    assert events >= PAYMENTS
    [explained] = json.loads(found)
    assert blocks(explained["Plan"]) / events < MAX_BLOCKS
