"""Answers kept under the client's own keys."""

from collections.abc import Sequence
from typing import Final, NamedTuple
from uuid import UUID

import msgspec

from postdate.model.ids import hash_bucket
from postdate.store.connection.column import same
from postdate.store.connection.database import Connection
from postdate.store.connection.query import query

REDRIVE_SCOPE: Final = "redrive"
"""Where it is kept as which new job a dead letter was redriven."""


class Key(NamedTuple):
    """Where an answer is kept; its order is the order of inserting."""

    bucket: int
    tenant_id: int
    scope: str
    key: str


class Kept(msgspec.Struct, frozen=True):
    """An answer, with the request that it answered."""

    bucket: int
    tenant_id: int
    scope: str
    key: str
    subject: UUID | None
    status: int
    request: bytes
    response: bytes


def key_of(tenant_id: int, scope: str, key: str) -> Key:
    """Place a client's key."""
    return Key(hash_bucket(tenant_id, key), tenant_id, scope, key)


async def find(connection: Connection, keys: Sequence[Key]) -> dict[Key, Kept]:
    """Look up what was answered under these keys."""
    if not keys:
        return {}
    buckets, tenants, scopes, texts = zip(*keys, strict=True)
    rows = await connection.fetch(
        query("idempotency_find"), buckets, same(tenants), same(scopes), texts
    )
    return {Key(*row[:4]): Kept(*row) for row in rows}


async def insert(connection: Connection, kept: Sequence[Kept]) -> bool:
    """Keep answers; False when another node answered one of the keys in the meantime."""
    if not kept:
        return True
    ordered = sorted(kept, key=lambda k: (k.bucket, k.tenant_id, k.scope, k.key))
    columns = zip(*(msgspec.structs.astuple(one) for one in ordered), strict=True)
    buckets, tenants, scopes, texts, subjects, statuses, *told = columns
    done: str = await connection.execute(
        query("idempotency_insert"),
        buckets,
        same(tenants),
        same(scopes),
        texts,
        subjects,
        same(statuses),
        *told,
    )
    return done == f"INSERT 0 {len(kept)}"
