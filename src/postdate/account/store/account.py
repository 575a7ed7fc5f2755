"""Accounts: the rows that hold balances."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Final, NamedTuple

import asyncpg
import msgspec

from postdate.account.spec import AccountView
from postdate.core.ids import hash_bucket
from postdate.database.connection.column import compact
from postdate.database.connection.query import Connection, Reader, fetch_all, fetch_one, query

MAX_KEYS: Final = 65_536
"""How many keys of accounts are cached, because busy ones recur."""


class AccountKey(NamedTuple):
    """The key of an account; its order is the order of locking."""

    bucket: int
    tenant_id: int
    account_id: str


class Account(msgspec.Struct):
    """A locked account: mutable, so that a batch can be decided item by item in memory."""

    bucket: int
    tenant_id: int
    account_id: str
    balance: int
    held: int
    version: int
    floor: int | None
    max_amount: int | None
    frozen_at: datetime | None
    closed_at: datetime | None
    currency: str | None = None
    """Read where a payment is decided; it never changes, so that settling need not ask."""

    @property
    def available(self) -> int:
        """Return the balance minus what is held."""
        return self.balance - self.held

    @property
    def key(self) -> AccountKey:
        """Return the key."""
        return AccountKey(self.bucket, self.tenant_id, self.account_id)


class BalanceChange(NamedTuple):
    """The amounts to add to an account's balance and holds."""

    balance: int
    held: int
    version: int


class Hold(NamedTuple):
    """An amount to be held, and the limits of the payer as they were when that was decided."""

    bucket: int
    tenant_id: int
    account_id: str
    amount: int
    floor: int | None
    max_amount: int | None


class CurrencyTotal(msgspec.Struct, frozen=True):
    """Accounts of one currency, added up."""

    currency: str | None
    accounts: int
    balance: int
    held: int


class AccountTerms(msgspec.Struct, frozen=True):
    """The changeable properties of an account, apart from its money."""

    floor: int | None = 0
    max_amount: int | None = None
    note: str | None = None
    frozen: bool = False
    closed: bool = False


@lru_cache(maxsize=MAX_KEYS)
def key_of(tenant_id: int, account_id: str) -> AccountKey:
    """Make the key of a tenant's account."""
    return AccountKey(hash_bucket(tenant_id, account_id), tenant_id, account_id)


async def lock(connection: Connection, keys: Iterable[AccountKey]) -> dict[AccountKey, Account]:
    """Lock accounts in key order, and return the existing ones."""
    rows = await connection.fetch(query("account_lock"), *_columns(keys))
    return _by_key(rows)


async def add(
    connection: Connection, changes: Mapping[AccountKey, BalanceChange]
) -> dict[AccountKey, Account]:
    """Change accounts in key order, and return them as they were before."""
    ordered = sorted(changes)
    buckets, tenants, ids = zip(*ordered, strict=True)
    added = zip(*(changes[key] for key in ordered), strict=True)
    rows = await connection.fetch(
        query("account_add"), buckets, compact(tenants), ids, *map(compact, added)
    )
    return _by_key(rows)


async def locked(connection: Connection, keys: Iterable[AccountKey]) -> set[AccountKey]:
    """Return the accounts that another transaction has locked, without waiting."""
    rows = await connection.fetch(query("account_locked"), *_columns(keys))
    return {AccountKey(*row) for row in rows}


def _by_key(rows: Iterable[asyncpg.Record]) -> dict[AccountKey, Account]:
    return {AccountKey(*row[:3]): Account(*row) for row in rows}


async def write(connection: Connection, accounts: Sequence[Account]) -> None:
    """Write balances, holds and versions of locked accounts in one statement."""
    if accounts:
        await connection.execute(
            query("account_write"),
            [a.bucket for a in accounts],
            [a.tenant_id for a in accounts],
            [a.account_id for a in accounts],
            [a.balance for a in accounts],
            [a.held for a in accounts],
            [a.version for a in accounts],
        )


async def gather(
    connection: Connection, lock_keys: Iterable[AccountKey], look_keys: Iterable[AccountKey]
) -> tuple[datetime, dict[AccountKey, Account]]:
    """Lock some accounts in key order, read others without a lock, and read the database's time."""
    *rows, last = await connection.fetch(
        query("account_gather"), *gather_columns(lock_keys, look_keys)
    )
    accounts = (Account(*row[1:]) for row in rows)
    return last["at"], {account.key: account for account in accounts}


def gather_columns(
    lock_keys: Iterable[AccountKey], look_keys: Iterable[AccountKey]
) -> list[Sequence[object]]:
    """Return the columns that `account_gather` takes."""
    buckets, tenants, ids = _columns(look_keys)
    return [*_columns(lock_keys), buckets, compact(tenants), ids]


def _columns(keys: Iterable[AccountKey]) -> list[list[object]]:
    ordered = sorted(set(keys))
    return list(map(list, zip(*ordered, strict=True))) if ordered else [[], [], []]


async def create(
    connection: Connection, key: AccountKey, terms: AccountTerms, currency: str | None = None
) -> AccountView | None:
    """Insert an empty account; None when the id is taken."""
    return await fetch_one(
        connection,
        AccountView,
        "account_create",
        *key,
        terms.floor,
        terms.max_amount,
        terms.note,
        currency,
    )


async def find(connection: Reader, key: AccountKey) -> AccountView | None:
    """Read one account."""
    return await fetch_one(connection, AccountView, "account_find", *key)


async def currencies(connection: Reader, tenant_id: int, names: Iterable[str]) -> dict[str, str]:
    """Return the currencies of accounts that name one, by the account's id."""
    keys = [key_of(tenant_id, name) for name in sorted(set(names))]
    rows = await connection.fetch(
        query("account_currencies"),
        tenant_id,
        [key.bucket for key in keys],
        [key.account_id for key in keys],
    )
    return {row["account_id"]: row["currency"] for row in rows}


async def totals(
    connection: Reader, tenant_id: int, names: list[str] | None
) -> list[CurrencyTotal]:
    """Add up a tenant's accounts by currency, or those with certain ids; without the issuer."""
    return await fetch_all(connection, CurrencyTotal, "account_totals", tenant_id, names)


async def page(connection: Reader, tenant_id: int, after: str, limit: int) -> list[AccountView]:
    """List a tenant's accounts by id."""
    return await fetch_all(connection, AccountView, "account_list", tenant_id, after, limit)


async def change(connection: Connection, key: AccountKey, terms: AccountTerms) -> AccountView:
    """Write the terms of a locked account."""
    row = await connection.fetchrow(query("account_change"), *key, *msgspec.structs.astuple(terms))
    if row is None:
        raise LookupError(f"account {key.account_id} was not locked")
    return AccountView(*row)
