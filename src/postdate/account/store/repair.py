"""Repairs of accounts: the evidence in the entries, and the record of each repair."""

from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from postdate.account.store.account import AccountKey
from postdate.database.connection.query import Connection, fetch_all, query


class Jump(msgspec.Struct, frozen=True):
    """A version whose balance does not follow from the one before, and by how much."""

    version: int
    difference: int


class Witness(NamedTuple):
    """What entries and open payments say about an account; `start` is before the first entry."""

    first_version: int
    version: int
    entries: int
    amounts: int
    start: int
    held: int


class Numbers(msgspec.Struct, frozen=True):
    """What an account stores, or should."""

    balance: int
    held: int
    version: int


class NewRepair(msgspec.Struct, frozen=True, kw_only=True):
    """A repair about to be recorded."""

    after: Numbers
    before: Numbers
    balance_jumps: list[Jump]
    requested_by: str
    approved_by: str
    reason: str


class RepairRow(msgspec.Struct, frozen=True):
    """A repair as it is listed: what it changed, when, by whom, and why."""

    tenant_id: int
    account_id: str
    repaired_at: datetime
    balance: int
    held: int
    version: int
    requested_by: str
    approved_by: str
    reason: str


async def read_evidence(connection: Connection, key: AccountKey) -> Witness:
    """Read what the entries and open payments of a locked account say."""
    [row] = await connection.fetch(query("repair_read_entries"), *key)
    held: int = await connection.fetchval(query("repair_read_held"), *key)
    return Witness._make([*row, held])


async def lost_payment(connection: Connection, key: AccountKey) -> UUID | None:
    """Find a payment from a locked account that has lost its timer."""
    return await connection.fetchval(query("repair_lost_payment"), *key)


async def jumps(connection: Connection, key: AccountKey) -> list[Jump]:
    """List where the running balance of an account jumps."""
    return await fetch_all(connection, Jump, "repair_balance_jumps", *key)


async def explained(connection: Connection, key: AccountKey) -> list[Jump]:
    """List the jumps that earlier repairs explain."""
    rows = await connection.fetch(query("repair_list"), *key)
    return [jump for row in rows for jump in msgspec.json.decode(row["jumps"], type=list[Jump])]


async def page(connection: Connection, tenant_id: int | None, limit: int) -> list[RepairRow]:
    """List repairs, the newest first."""
    return await fetch_all(connection, RepairRow, "repair_all", tenant_id, limit)


async def requested(
    connection: Connection, key: AccountKey, subject: UUID, seconds: float
) -> tuple[str, dict[str, Any]] | None:
    """Return who requested a repair that has not been made yet, and what was recorded then."""
    row = await connection.fetchrow(
        query("repair_requested"), key.bucket, key.tenant_id, subject, seconds, key.account_id
    )
    return (row[0], msgspec.json.decode(row[1])) if row else None


async def insert(connection: Connection, key: AccountKey, new: NewRepair) -> None:
    """Record a repair."""
    await connection.execute(
        query("repair_insert"),
        *key,
        new.after.version,
        new.after.balance,
        new.after.held,
        new.before.version,
        new.before.balance,
        new.before.held,
        msgspec.json.encode(new.balance_jumps).decode(),
        new.requested_by,
        new.approved_by,
        new.reason,
    )
