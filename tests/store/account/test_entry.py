from datetime import datetime
from uuid import UUID

import pytest

from conftest import Clock
from postdate.account.store import account as account_store
from postdate.account.store import entry as entry_store
from postdate.account.store.account import AccountKey, AccountTerms, key_of
from postdate.account.store.entry import NewEntry
from postdate.core.ids import new_id
from postdate.database.connection.database import Connection, Database
from postdate.database.connection.error import DatabaseError


async def _accounts(connection: Connection, tenant_id: int) -> tuple[AccountKey, AccountKey]:
    keys = key_of(tenant_id, "alice"), key_of(tenant_id, "issuer")
    await account_store.create(connection, keys[0], AccountTerms())
    await account_store.create(connection, keys[1], AccountTerms(floor=None))
    return keys


async def _credit(database: Database, keys: tuple[AccountKey, AccountKey], amount: int) -> None:
    """Move money from the second account to the first."""
    transfer_id = new_id(0, database.unix_ms())
    async with database.write() as connection:
        locked = await account_store.lock(connection, keys)
        legs = [(locked[keys[0]], amount), (locked[keys[1]], -amount)]
        for account, leg in legs:
            account.balance += leg
            account.version += 1
        await account_store.write(connection, [account for account, _ in legs])
        await entry_store.insert(connection, [_entry(a, transfer_id, leg) for a, leg in legs])


def _entry(account: account_store.Account, transfer_id: UUID, amount: int) -> NewEntry:
    return NewEntry(
        *account.key,
        account.version,
        transfer_id,
        amount,
        account.balance,
        "ADJUSTMENT",
        reason="test",
    )


async def _clock(database: Database) -> datetime:
    at: datetime = await database.writer.fetchval("SELECT clock()")
    return at


async def test_the_balance_at_an_instant_is_found_by_halving(
    database: Database, tenant_id: int, clock: Clock
) -> None:
    async with database.write() as connection:
        keys = await _accounts(connection, tenant_id)
    instants = [await _clock(database)]
    for number in range(1, 8):
        await clock.advance(60)
        await _credit(database, keys, number)
        instants.append(await _clock(database))
    async with database.read(tenant_id) as connection:
        found = [await entry_store.at(connection, keys[0], instant) for instant in instants]
        earlier = await entry_store.statement(connection, keys[0], None, 5, 2)
        then = await entry_store.statement(connection, keys[0], instants[3], 5, 2)
    assert [(f.version, f.balance) for f in found if f] == [(n, n * (n + 1) // 2) for n in range(8)]
    assert earlier is not None
    assert (earlier[0].version, earlier[0].balance) == (7, 28)
    assert [(e.version, e.amount, e.balance) for e in earlier[1]] == [(5, 5, 15), (4, 4, 10)]
    assert then is not None
    assert (then[0].version, [e.version for e in then[1]]) == (3, [3, 2])


async def test_entries_that_do_not_sum_to_zero_are_refused(
    database: Database, tenant_id: int
) -> None:
    async with database.write() as connection:
        keys = await _accounts(connection, tenant_id)
        account = (await account_store.lock(connection, keys))[keys[0]]
    account.version += 1
    alone = _entry(account, new_id(0, database.unix_ms()), 5)
    async with database.write() as connection:
        with pytest.raises(DatabaseError, match="do not sum to zero") as caught:
            await entry_store.insert(connection, [alone])
    assert caught.value.sqlstate == "PD002"
