"""Nodes: processes that report that they are alive."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

import msgspec

from postdate.database.connection.query import Connection, Reader, fetch_all, query

LIVE_SECONDS: Final = 10
"""A node that has not been seen for this long counts as gone."""

FORGET_SECONDS: Final = 7 * 24 * 3600
KEY_ROLES: Final = frozenset({"api", "worker", "publisher"})
"""The roles that open secrets."""


class NodeRow(msgspec.Struct, frozen=True):
    """A node as stored."""

    node_id: UUID
    name: str
    roles: list[str]
    version: str
    started_at: datetime
    seen_at: datetime


class NodeKeys(msgspec.Struct, frozen=True):
    """Which secret keys a node was given."""

    roles: list[str]
    secret_keys: list[int]
    started_at: datetime
    seen_at: datetime


async def beat(
    connection: Connection,
    node_id: UUID,
    name: str,
    roles: list[str],
    version: str,
    secret_keys: Sequence[int] = (),
    *,
    seconds: float | None = None,
) -> None:
    """Record that this process is alive; wait at most this long for the answer."""
    given = node_id, name, roles, version, list(secret_keys)
    await connection.execute(query("node_beat"), *given, timeout=seconds)


async def forget(connection: Connection) -> None:
    """Delete the nodes long gone."""
    await connection.execute(query("node_forget"), FORGET_SECONDS)


async def list_live(reader: Reader, within_seconds: float = LIVE_SECONDS) -> list[NodeRow]:
    """List the nodes seen lately."""
    return await fetch_all(reader, NodeRow, "node_list_live", within_seconds)


async def keys_by_id(connection: Connection) -> dict[UUID, list[int]]:
    """Return which keys each node was given."""
    return dict(map(tuple, await connection.fetch(query("node_keys_by_id"))))


async def list_keys(reader: Reader) -> list[NodeKeys]:
    """List which keys the nodes of the last week were given."""
    rows = await reader.fetch(query("node_keys"), float(FORGET_SECONDS))
    return [NodeKeys(*row) for row in rows]


async def sign_off(connection: Connection, node_id: UUID) -> None:
    """Sign off."""
    await connection.execute(query("node_sign_off"), node_id)
