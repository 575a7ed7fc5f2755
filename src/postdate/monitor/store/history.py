"""History: weekly partitions, listed, detached and dropped."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

import msgspec

from postdate.database.connection.query import Connection, fetch_all, query


class PartitionRow(msgspec.Struct, frozen=True):
    """One week of one table."""

    partition: str
    parent: str
    until: datetime
    detached_at: datetime | None
    dropped_at: datetime | None
    rows: int | None
    bytes: int


async def page(connection: Connection) -> list[PartitionRow]:
    """List every partition, attached or not."""
    return await fetch_all(connection, PartitionRow, "history_list")


async def list_older(connection: Connection, parents: Sequence[str], days: int) -> list[str]:
    """List the attached partitions of these tables that ended a number of days ago."""
    rows = await connection.fetch(query("history_list_older"), parents, days)
    return [row[0] for row in rows]


async def detach(connection: Connection, partition: str, *, money: bool) -> None:
    """Detach a partition from its table; the database refuses recent and needed ones."""
    await connection.execute(query("history_detach"), partition, money)


async def drop(connection: Connection, partition: str) -> None:
    """Delete a detached partition."""
    await connection.execute(query("history_drop"), partition)


MONEY: Final = ("payment", "transfer", "outcome")
"""The tables of money: their weeks leave only when that is meant by name."""

EVENT_TABLES: Final = ("event", "attempt")
"""The tables of what was told, whose old weeks leave by `history.retention_days`."""


async def floor(connection: Connection, parents: Sequence[str] = MONEY) -> UUID:
    """Return the first id from which the history in these tables is complete."""
    return await connection.fetchval(query("history_floor"), parents)


async def oldest_ms(connection: Connection) -> int:
    """Return when the oldest attached week begins, in milliseconds since the epoch."""
    return await connection.fetchval(query("history_oldest_ms"))
