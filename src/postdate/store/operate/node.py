"""Nodes: processes that said they are alive."""

from datetime import datetime
from typing import Final
from uuid import UUID

import msgspec

from postdate.store.connection.combined import Reader
from postdate.store.connection.database import Connection
from postdate.store.connection.query import query

LIVE_SECONDS: Final = 10
"""A node that has not been seen for this long no longer takes a share of the buckets."""

FORGET_SECONDS: Final = 7 * 24 * 3600


class NodeRow(msgspec.Struct, frozen=True):
    """A node as stored."""

    node_id: UUID
    name: str
    roles: list[str]
    version: str
    started_at: datetime
    seen_at: datetime


async def beat(
    connection: Connection, node_id: UUID, name: str, roles: list[str], version: str
) -> None:
    """Record that this process is alive."""
    await connection.execute(query("node_beat"), node_id, name, roles, version)


async def forget(connection: Connection) -> None:
    """Delete the nodes long gone."""
    await connection.execute(query("node_forget"), FORGET_SECONDS)


async def list_live(reader: Reader, within_seconds: float = LIVE_SECONDS) -> list[NodeRow]:
    """List the nodes seen lately."""
    return [NodeRow(*row) for row in await reader.fetch(query("node_list_live"), within_seconds)]


async def sign_off(connection: Connection, node_id: UUID) -> None:
    """Sign off."""
    await connection.execute(query("node_sign_off"), node_id)
