"""API keys, kept as hashes."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from postdate.core.identity import Scope
from postdate.database.connection.query import Connection, Reader, fetch_all, fetch_one, query
from postdate.key.spec import KeyView


class StoredKey(msgspec.Struct, frozen=True):
    """The reach of a key, read before it is used to create another."""

    note: str
    scopes: list[str]
    accounts: list[str] | None
    max_amount: int | None
    expires_at: datetime | None
    ended: bool
    persons: list[str]


class KeyFound(msgspec.Struct, frozen=True):
    """What authentication needs of a key."""

    key_id: UUID
    tenant_id: int
    tenant: str
    scopes: list[str]
    accounts: list[str] | None
    max_amount: int | None
    ended: bool
    seconds_left: float | None
    persons: list[str]
    test: bool


class NewKeyRow(msgspec.Struct, frozen=True, kw_only=True):
    """A key about to be stored."""

    key_id: UUID
    tenant_id: int
    hash: bytes
    hint: str
    note: str
    scopes: list[str]
    accounts: list[str] | None = None
    max_amount: int | None = None
    expires_at: datetime | None = None
    persons: list[str]


async def create(connection: Connection, key: NewKeyRow) -> bool:
    """Insert a key; False when the same secret is stored already."""
    done: str = await connection.execute(query("key_create"), *msgspec.structs.astuple(key))
    return done.endswith(" 1")


async def find_by_secret(connection: Connection, digest: bytes) -> KeyFound | None:
    """Look up a key by the hash of its secret."""
    return await fetch_one(connection, KeyFound, "key_find_by_secret", digest)


async def alive(connection: Connection, key_id: UUID) -> bool:
    """Return whether a key is neither revoked nor expired."""
    found: bool | None = await connection.fetchval(query("key_alive"), key_id)
    return bool(found)


async def page(connection: Reader, tenant_id: int, after: UUID, limit: int) -> list[KeyView]:
    """List a tenant's keys, oldest first."""
    return await fetch_all(connection, _view, "key_list", tenant_id, after, limit)


def _view(key_id: UUID, hint: str, note: str, scopes: list[str], *others: Any) -> KeyView:
    return KeyView(key_id, hint, note, [Scope(each) for each in scopes], *others)


async def find(connection: Connection, tenant_id: int, key_id: UUID) -> StoredKey | None:
    """Read the reach of a tenant's key."""
    return await fetch_one(connection, StoredKey, "key_find", tenant_id, key_id)


async def count(connection: Connection, tenant_id: int) -> int:
    """Count a tenant's keys that have not ended."""
    return await connection.fetchval(query("key_count"), tenant_id)


async def end(connection: Connection, tenant_id: int, key_id: UUID, seconds: float) -> datetime:
    """Make a key expire after some seconds, unless it expires earlier."""
    return await connection.fetchval(query("key_end"), tenant_id, key_id, seconds)


async def revoke(
    connection: Connection, tenant_id: int, key_id: UUID
) -> tuple[datetime, bool] | None:
    """End a key now; return when it ended and whether that is new, None for no such key."""
    if (at := await connection.fetchval(query("key_revoke"), tenant_id, key_id)) is not None:
        return at, True
    at = await connection.fetchval(query("key_revoked"), tenant_id, key_id)
    return None if at is None else (at, False)


async def used(connection: Connection, key_ids: Sequence[UUID]) -> None:
    """Record that these keys were used just now."""
    await connection.execute(query("key_used"), key_ids)
