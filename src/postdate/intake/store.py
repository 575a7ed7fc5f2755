"""Idempotency keys: narrow rows that say what a client's key led to.

A row holds the hash of the key, a fingerprint of the request and the address of what was made. The
answer follows from the request and that address; what does not follow from them (a refusal, a
secret that is shown once) is stored as `kept`.
"""

from collections.abc import Sequence
from datetime import datetime
from enum import IntEnum
from hashlib import sha256
from operator import attrgetter
from typing import Any, Final, NamedTuple
from uuid import UUID

import asyncpg
import msgspec

from postdate.core.ids import BUCKETS
from postdate.database.connection.column import Columns, call, compact
from postdate.database.connection.driver_id import id_of_bytes
from postdate.database.connection.error import KeyTakenError, UniqueViolationError
from postdate.database.connection.query import Connection, Reader, query

HASH_BYTES: Final = 16


class KeyScope(IntEnum):
    """What a key was sent for; keys of different scopes never collide."""

    OPERATION = 0
    """Any other operation; its name is part of the hash."""

    JOB = 1
    REDRIVE = 2
    """Under the id of a dead letter: as which new job it was redriven."""

    PAYMENT = 3
    ADJUSTMENT = 4
    SCHEDULE = 5


class IdempotencyKey(NamedTuple):
    """Where a row is; the order of these tuples is the order of inserting."""

    bucket: int
    scope: KeyScope
    tenant_id: int
    hash: UUID


class IdempotencyRow(msgspec.Struct, frozen=True, gc=False):
    """The request under a key, and its result."""

    key: IdempotencyKey
    fingerprint: UUID
    subject: UUID | None
    created_at: datetime
    """The instant by which the request was judged."""

    kept: bytes | None = None
    """The request and its answer, where the answer does not follow from `subject`."""


_REST: Final = IdempotencyRow.__struct_fields__[1:]
COLUMNS: Final = Columns(
    "idempotency_columns",
    (*IdempotencyKey._fields, *_REST),
    repeated={"scope", "tenant_id", "created_at"},
    row=attrgetter(*(f"key.{field}" for field in IdempotencyKey._fields), *_REST),
    order=attrgetter("key"),
)
_INSERT: Final = call("idempotency_insert", COLUMNS)


def key_of(tenant_id: int, scope: KeyScope, key: str, operation: str = "") -> IdempotencyKey:
    """Return where the row of a client's key is."""
    digest = sha256(f"{scope:d}/{operation}/{tenant_id}/{key}".encode()).digest()
    found = id_of_bytes(digest[:HASH_BYTES])
    return IdempotencyKey(digest[0] % BUCKETS, scope, tenant_id, found)


def key_at(tenant_id: int, scope: KeyScope, found: UUID) -> IdempotencyKey:
    """Return where the row of a key with this hash is."""
    return IdempotencyKey(found.bytes[0] % BUCKETS, scope, tenant_id, found)


def id_tail(key: IdempotencyKey, fingerprint: UUID) -> bytes:
    """Return the eight bytes in which the id of what is made under a key ends.

    So the id, which is sealed, witnesses the row: `idempotency_fits` compares the two.
    """
    return sha256(key.hash.bytes + fingerprint.bytes).digest()[:8]


async def find(
    connection: Reader, keys: Sequence[IdempotencyKey]
) -> dict[IdempotencyKey, IdempotencyRow]:
    """Return the rows of those of the keys that are known."""
    if not keys:
        return {}
    return rows_of(await connection.fetch(query("idempotency_find"), *key_columns(keys)))


def key_columns(keys: Sequence[IdempotencyKey]) -> list[Sequence[object]]:
    """Return the keys as the columns that `idempotency_find` takes."""
    if not keys:
        return [(), (), (), ()]
    buckets, scopes, tenants, hashes = zip(*keys, strict=True)
    return [buckets, compact(scopes), compact(tenants), hashes]


def rows_of(
    records: Sequence[asyncpg.Record | tuple[Any, ...]],
) -> dict[IdempotencyKey, IdempotencyRow]:
    """Return what `idempotency_find` found, by key."""
    rows = (IdempotencyRow(_key(record), *record[4:]) for record in records)
    return {row.key: row for row in rows}


def _key(record: asyncpg.Record | tuple[Any, ...]) -> IdempotencyKey:
    bucket, scope, tenant_id, found = record[:4]
    return IdempotencyKey(bucket, KeyScope(scope), tenant_id, found)


async def insert(connection: Connection, rows: Sequence[IdempotencyRow]) -> None:
    """Insert rows; raise KeyTakenError when another transaction was quicker with one of them."""
    if not rows:
        return
    try:
        await connection.execute(_INSERT, *COLUMNS.arrays(rows))
    except UniqueViolationError as error:
        raise KeyTakenError(str(error)) from error
