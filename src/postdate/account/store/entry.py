"""Entries: the two sides of transfers, and the statement they make."""

from datetime import UTC, datetime, timedelta
from typing import Final, Literal
from uuid import UUID

import msgspec

from postdate.account.store.account import AccountKey
from postdate.database.connection.query import Reader, fetch_all, fetch_one, query

EntryType = Literal["PAYMENT", "ADJUSTMENT"]
FIRST_INSTANT: Final = datetime(1970, 1, 1, tzinfo=UTC)
"""No entry is older."""
LAST_INSTANT: Final = datetime(9999, 1, 1, tzinfo=UTC)
"""No entry is newer."""


class EntryRow(msgspec.Struct, frozen=True):
    """One side of a transfer; balance and version are the account's after it."""

    account_id: str
    version: int
    transfer_id: UUID
    amount: int
    balance: int
    type: EntryType
    payment_id: UUID | None
    reason: str | None
    created_at: datetime


class AccountAtInstant(msgspec.Struct, frozen=True):
    """The version and balance of an account at an instant, and its currency."""

    version: int
    balance: int
    currency: str | None


async def statement(
    connection: Reader, key: AccountKey, instant: datetime | None, version: int, limit: int
) -> tuple[AccountAtInstant, list[EntryRow]] | None:
    """Return an account's balance, now or at an instant, and the entries before it."""
    rows = await connection.fetch(query("entry_statement"), *key, instant, version, limit)
    if not rows:
        return None
    entries = [EntryRow(*row[3:]) for row in rows if row[3] is not None]
    return AccountAtInstant(*rows[0][:3]), entries


async def at(connection: Reader, key: AccountKey, instant: datetime) -> AccountAtInstant | None:
    """Find version and balance of an account at an instant; None when there is no account."""
    return await fetch_one(connection, AccountAtInstant, "entry_at", *key, instant)


async def before(connection: Reader, key: AccountKey, instant: datetime) -> AccountAtInstant | None:
    """Find version and balance of an account just before an instant."""
    return await at(connection, key, max(instant, FIRST_INSTANT) - timedelta(microseconds=1))


async def between(connection: Reader, key: AccountKey, after: int, until: int) -> list[EntryRow]:
    """List the entries after one version up to another, the oldest first."""
    return await fetch_all(connection, EntryRow, "entry_between", *key, after, until)
