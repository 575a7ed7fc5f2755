"""Everybody who changes accounts visits them in one order, so that nobody deadlocks."""

import asyncio

import pytest

from conftest import eventually
from postdate.account.store import account as account_store
from postdate.account.store.account import AccountKey, AccountTerms, BalanceChange, key_of
from postdate.database.connection.database import Connection, Database

NAMES = [f"order-{number}" for number in range(40)]
WAITING = "SELECT count(*) FROM pg_locks WHERE NOT granted AND pid = $1"


async def _open(database: Database, tenant_id: int) -> list[AccountKey]:
    keys = sorted(key_of(tenant_id, name) for name in NAMES)
    async with database.write() as connection:
        for key in keys:
            await account_store.create(connection, key, AccountTerms(None))
    return keys


async def _add(connection: Connection, keys: list[AccountKey]) -> None:
    await account_store.add(connection, dict.fromkeys(reversed(keys), BalanceChange(1, 0, 1)))


async def _lock(connection: Connection, keys: list[AccountKey]) -> None:
    await account_store.lock(connection, reversed(keys))


@pytest.mark.parametrize("change", [_add, _lock])
@pytest.mark.parametrize("place", [0, 20, 39])
async def test_accounts_are_taken_in_the_one_order(
    database: Database, tenant_id: int, change: object, place: int
) -> None:
    keys = await _open(database, tenant_id)
    async with database.write() as holder, database.write() as waiter:
        await account_store.lock(holder, [keys[place]])
        pid = await waiter.fetchval("SELECT pg_backend_pid()")
        waiting = asyncio.create_task(change(waiter, keys))  # type: ignore[operator]
        await eventually(lambda: database.writer.fetchval(WAITING, pid))
        # It has everything before the one that it waits for, and nothing behind it.
        free = await database.writer.fetch(
            "SELECT account_id FROM account WHERE tenant_id = $1 FOR NO KEY UPDATE SKIP LOCKED",
            tenant_id,
        )
        assert {row[0] for row in free} == {key.account_id for key in keys[place + 1 :]}
        await holder.execute("ROLLBACK")
        await waiting
        await waiter.execute("ROLLBACK")
        await holder.execute("BEGIN")
        await waiter.execute("BEGIN")


async def test_changes_give_the_accounts_as_they_were(database: Database, tenant_id: int) -> None:
    key = key_of(tenant_id, "added")
    async with database.write() as connection:
        await account_store.create(connection, key, AccountTerms(None))
        before = await account_store.add(connection, {key: BalanceChange(5, 0, 1)})
        again = await account_store.add(connection, {key: BalanceChange(2, 3, 1)})
        after = await account_store.lock(connection, [key])
    seen = [(found[key].balance, found[key].held) for found in (before, again, after)]
    assert seen == [(0, 0), (5, 0), (7, 3)]
    assert after[key].version == 2
