from datetime import datetime

from conftest import Clock
from postdate.account.store import account as account_store
from postdate.account.store import entry as entry_store
from postdate.account.store import transfer as transfer_store
from postdate.account.store.account import AccountKey, AccountTerms, key_of
from postdate.core.ids import new_id
from postdate.database.connection.database import Connection, Database
from postdate.ledger.account import adjust, adjustment


async def _accounts(connection: Connection, tenant_id: int) -> tuple[AccountKey, AccountKey]:
    keys = key_of(tenant_id, "alice"), key_of(tenant_id, "issuer")
    await account_store.create(connection, keys[0], AccountTerms())
    await account_store.create(connection, keys[1], AccountTerms(floor=None))
    return keys


async def _credit(database: Database, keys: tuple[AccountKey, AccountKey], amount: int) -> None:
    """Move money from the second account to the first."""
    async with database.write() as connection:
        locked = await account_store.lock(connection, keys)
        account, issuer = (locked[key] for key in keys)
        adjust(account, issuer, account.account_id, amount)
        await account_store.write(connection, [account, issuer])
        moved = adjustment(account, issuer, new_id(0, database.unix_ms()), amount, "test")
        await transfer_store.insert(connection, [moved])


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
