"""A client's transaction costs what it asks for: the thousandth request as much as the first."""

import itertools
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from conftest import Api
from postdate.database.connection.database import Database
from postdate.database.embedded import Embedded
from support.api_ledger import Ledger, open_ledger
from support.own_transaction import WORKER, own_role

PART = 800
PARTS = 4
MAX_RATIO = 1.5
"""What the second half of a transaction may cost of the first; it was above 2."""

JOBS = """SELECT postdate.enqueue($1::text::jsonb, idempotency_key => 'job-' || n)
            FROM generate_series($2::integer, $3::integer) AS n"""
PAYMENTS = """SELECT postdate.schedule_payment('alice', 'bob', length($1::text), 'pay-' || n,
                                               delay_seconds => 60, funding => 'at_execution')
                FROM generate_series($2::integer, $3::integer) AS n"""


@pytest.fixture
async def ledger(api: Api) -> Ledger:
    return await open_ledger(api)


@pytest.fixture
async def own(
    ledger: Ledger, server: Embedded, database_name: str, database: Database
) -> AsyncIterator[asyncpg.Connection]:
    async with own_role(server, database_name, database, ledger.api.tenant) as role:
        async with role.connect() as connection:
            yield connection


def cpu_seconds(pid: int) -> float:
    """Return how long the process of a connection has computed, however busy the machine is."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


@pytest.mark.parametrize("ask", [JOBS, PAYMENTS])
async def test_a_large_transaction_costs_as_much_per_request_as_a_small_one(
    own: asyncpg.Connection, ask: str
) -> None:
    pid = own.get_server_pid()
    spent = [cpu_seconds(pid)]

    async def run(first: int, parts: int) -> None:
        async with own.transaction():
            for begin in range(first, first + parts * PART, PART):
                await own.execute(ask, WORKER, begin, begin + PART - 1)
                spent.append(cpu_seconds(pid))
        spent.append(cpu_seconds(pid))

    await run(0, 1)
    await run(PART, PARTS)
    took = [after - before for before, after in itertools.pairwise(spent)]
    small_commit, calls, large_commit = took[1], took[2:-1], took[-1]
    half = PARTS // 2
    assert sum(calls[half:]) <= sum(calls[:half]) * MAX_RATIO
    assert large_commit <= small_commit * PARTS * MAX_RATIO
