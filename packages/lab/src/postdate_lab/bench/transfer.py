"""The other arms of settling: two naive UPDATEs, pgledger, and the bare rows without a decision."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import asyncpg

from postdate.account.store import account as account_store
from postdate.account.store.account import Account
from postdate.audit.spec import SYSTEM
from postdate.ledger.batch import due_of, ids, leaving_payments, transfers
from postdate.ledger.settle import TransferCompleted, decide
from postdate.payment.store.settlement import SettlementBatch
from postdate.settlement.settler import MAX_BATCH, Settler
from postdate.words.error import StartError
from postdate_lab.bench import payment_database as store
from postdate_lab.bench.bank import BALANCE, Bank, pairs
from postdate_lab.bench.machine import Stopwatch
from postdate_lab.bench.testbed import Testbed

CALL: Final = 100
"""Transfers of one call of pgledger, where it takes many."""

Pair = tuple[str, str]
MoveMoney = Callable[[asyncpg.Connection, str, str], Awaitable[None]]


async def ours(bank: Bank, *, in_python: bool = False) -> float:
    """Settle all that is due with a settler of our own; give the rate."""
    node = bank.testbed.node
    settler = Settler(node.database, node.runtime, node.node_id)
    if in_python:
        settler.decide_in_python()
    watch, total = Stopwatch(), 0
    while count := await settler.run_once():
        total += count
    return watch.rate(total)


async def limit(bank: Bank) -> float:
    """Write the rows of a settlement, made beforehand, from one connection; give the rate."""
    ready = await _rows(bank)
    database = bank.testbed.node.database
    watch = Stopwatch()
    for columns in ready:
        async with database.write() as connection:
            await store.write(connection, *columns)
    return watch.rate(sum(len(moved[0]) for _, _, moved, _ in ready))


Bare = tuple[store.ColumnValues, store.ColumnValues, store.ColumnValues, SettlementBatch]


async def _rows(bank: Bank) -> list[Bare]:
    """Decide everything in memory and keep the columns of each batch."""
    database = bank.testbed.node.database
    async with bank.testbed.superuser() as connection:
        payments = await store.due(connection, bank.tenant_id)
    async with database.connection() as connection:
        _, accounts = await account_store.gather(connection, [], bank.keys)
        ready: list[Bare] = []
        for first in range(0, len(payments), MAX_BATCH):
            some = payments[first : first + MAX_BATCH]
            dues = [due_of(payment) for payment in some]
            decisions = decide(accounts, dues, some[0].at, lambda _: timedelta(0))
            done = [c for c in decisions if isinstance(c, TransferCompleted)]
            made = ids(dues, database.unix_ms())
            changed = sorted({key for due in dues for key in (due.payer, due.payee)})
            ready.append(
                (
                    _columns(_stored(accounts[key]) for key in changed),
                    [leaving_payments(dues)],
                    _columns(transfers(dues, done, made)),
                    SettlementBatch(some[0].at, None, SYSTEM),
                )
            )
    return ready


def _stored(account: Account) -> tuple[Any, ...]:
    return (*account.key, account.balance, account.held, account.version)


def _columns(rows: Any) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)]


class Rival:
    """Another ledger in a database of its own, moving 1 with each call."""

    def __init__(self, dsn: str, names: Sequence[str], move: MoveMoney) -> None:
        self._dsn = dsn
        self._names = names
        self._move = move

    async def rate(self, count: int, clients: int, *, hot: bool) -> float:
        """Move as fast as so many clients of one process can; give the rate."""
        wanted = pairs(self._names, count, hot=hot)
        connections = [await asyncpg.connect(self._dsn) for _ in range(clients)]
        await asyncio.gather(*(self._move(c, *wanted[0]) for c in connections[:1]))
        watch = Stopwatch()
        try:
            await asyncio.gather(
                *(self._work(c, wanted[n::clients]) for n, c in enumerate(connections))
            )
            return watch.rate(len(wanted))
        finally:
            for connection in connections:
                await connection.close()

    async def _work(self, connection: asyncpg.Connection, wanted: Sequence[Pair]) -> None:
        for payer, payee in wanted:
            await self._move(connection, payer, payee)

    async def batched(self, count: int, *, hot: bool) -> float:
        """Move many with each call of pgledger, from one connection; give the rate."""
        wanted = pairs(self._names, count, hot=hot)
        connection = await asyncpg.connect(self._dsn)
        watch = Stopwatch()
        try:
            for first in range(0, len(wanted), CALL):
                payers, payees = zip(*wanted[first : first + CALL], strict=True)
                await store.pgledger_batch(connection, payers, payees)
            return watch.rate(len(wanted))
        finally:
            await connection.close()


async def naive(testbed: Testbed, names: Sequence[str]) -> Rival:
    """Make the arm of two UPDATEs in a transaction."""
    dsn = await testbed.database("naive")
    async with testbed.superuser("naive") as connection:
        await store.naive_open(connection, names, BALANCE)
    return Rival(dsn, names, store.naive_move)


async def pgledger(testbed: Testbed, names: Sequence[str], path: Path) -> Rival:
    """Install pgledger and open its accounts."""
    scripts = pgledger_scripts(path)
    dsn = await testbed.database("pgledger")
    connection = await asyncpg.connect(dsn)
    try:
        for script in scripts:
            await connection.execute(script)
        ids = await store.pgledger_open(connection, names)
    finally:
        await connection.close()
    return Rival(dsn, ids, store.pgledger_move)


def pgledger_scripts(path: Path) -> list[str]:
    """Read what installs pgledger, in order, from its checkout."""
    last = path / "pgledger.sql"
    if not last.is_file():
        raise StartError(f"{path} is no checkout of pgledger: it holds no pgledger.sql")
    return [script.read_text() for script in (*sorted(path.glob("vendor/**/*.sql")), last)]
