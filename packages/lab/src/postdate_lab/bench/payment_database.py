"""What only `postdate bench payments` asks."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final, Literal, NamedTuple, TypeAlias
from uuid import UUID

import asyncpg

from postdate.account.store.account import AccountKey, key_of
from postdate.core.money import ISSUER
from postdate.database.connection.database import Connection
from postdate.database.connection.query import query
from postdate.payment.store.settlement import LockedPayment, SettlementBatch
from postdate.timer.timer import LANE_PAYMENT

_query = partial(query, package="postdate_lab.bench")

FILL_SECONDS: Final = 3600

ColumnValues = Sequence[Sequence[Any]]


class PaymentLateness(NamedTuple):
    """The results of a tenant's payments; times in milliseconds from due to written."""

    ended: int
    early: int
    p50: float
    p95: float
    p99: float
    worst: float


Shape: TypeAlias = Literal["spread", "hot", "payer", "zipf", "chain", "short"]
"""Who pays whom; the query `bench_payment_fill` says what each means."""


class Due(NamedTuple):
    """When filled payments are due: the first one, and the step to each next one."""

    first: datetime
    step: timedelta


async def open_accounts(
    connection: asyncpg.Connection, tenant_id: int, names: Sequence[str], balance: int
) -> list[AccountKey]:
    """Open accounts with money, and the issuer that it came from."""
    keys = [key_of(tenant_id, name) for name in names]
    await connection.execute(
        _query("bench_payment_open"),
        tenant_id,
        [key.bucket for key in keys],
        list(names),
        key_of(tenant_id, ISSUER).bucket,
        balance,
        ISSUER,
        timeout=FILL_SECONDS,
    )
    return keys


async def fill(
    connection: asyncpg.Connection,
    keys: Sequence[AccountKey],
    count: int,
    due: Due,
    shape: Shape,
    too_much: int,
) -> None:
    """Schedule payments between accounts; `too_much` is more than any of them has."""
    await connection.execute(
        _query("bench_payment_fill"),
        keys[0].tenant_id,
        [key.bucket for key in keys],
        [key.account_id for key in keys],
        count,
        due.first,
        shape,
        due.step,
        LANE_PAYMENT,
        too_much,
        timeout=FILL_SECONDS,
    )


async def due(connection: asyncpg.Connection, tenant_id: int) -> list[LockedPayment]:
    """List a tenant's due payments in the order of settling, without locking any."""
    rows = await connection.fetch(_query("bench_payment_due"), tenant_id, LANE_PAYMENT)
    return [LockedPayment(*row) for row in rows]


async def sample(connection: asyncpg.Connection, tenant_id: int, count: int) -> list[UUID]:
    """Choose some payments of a tenant."""
    rows = await connection.fetch(_query("bench_payment_sample"), tenant_id, count)
    return [row[0] for row in rows]


async def count(connection: asyncpg.Connection, tenant_id: int) -> int:
    """Count a tenant's payments."""
    found: int = await connection.fetchval(_query("bench_payment_count"), tenant_id)
    return found


async def write(
    connection: Connection,
    accounts: ColumnValues,
    departures: ColumnValues,
    transfers: ColumnValues,
    execution: SettlementBatch,
) -> None:
    """Write what a settlement writes, with nothing to find, lock or decide."""
    await connection.execute(query("account_write"), *accounts)
    await connection.execute(query("settlement_delete_timers"), *departures)
    await connection.execute(
        query("settlement_complete"),
        *transfers,
        execution.started_at,
        execution.execution_id,
        execution.actor,
    )


async def lateness(connection: asyncpg.Connection, tenant_id: int) -> PaymentLateness:
    """Sum up how a tenant's payments ended."""
    row = await connection.fetchrow(_query("bench_payment_lateness"), tenant_id)
    if row is None or row["late"] is None:
        return PaymentLateness(0, 0, 0.0, 0.0, 0.0, 0.0)
    return PaymentLateness(row["ended"], row["early"], *row["late"])


async def deadlocks(connection: asyncpg.Connection) -> int:
    """Count the deadlocks that this database has seen."""
    count: int = await connection.fetchval(_query("bench_payment_deadlocks"))
    return count


async def naive_open(connection: asyncpg.Connection, names: Sequence[str], balance: int) -> None:
    """Make the table of the naive arm."""
    await connection.execute(_query("bench_payment_naive_make"))
    await connection.execute(_query("bench_payment_naive_open"), list(names), balance)


async def naive_move(connection: asyncpg.Connection, payer: str, payee: str) -> None:
    """Move 1 with two UPDATEs in a transaction, in the order of names so that none deadlock."""
    async with connection.transaction():
        for name, amount in sorted([(payer, -1), (payee, 1)]):
            await connection.execute(_query("bench_payment_naive_add"), name, amount)


async def pgledger_open(connection: asyncpg.Connection, names: Sequence[str]) -> list[str]:
    """Open accounts in pgledger; give their ids."""
    rows = await connection.fetch(_query("bench_payment_pgledger_open"), list(names))
    return [row[0] for row in rows]


async def pgledger_move(connection: asyncpg.Connection, payer: str, payee: str) -> None:
    """Make one transfer in pgledger."""
    await connection.execute(_query("bench_payment_pgledger_move"), payer, payee)


async def pgledger_batch(
    connection: asyncpg.Connection, payers: Sequence[str], payees: Sequence[str]
) -> None:
    """Make many transfers in pgledger with one call."""
    await connection.execute(_query("bench_payment_pgledger_batch"), payers, payees)
