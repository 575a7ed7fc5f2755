"""The last time of the database's clock that a node believed, as the database recorded it."""

from datetime import datetime
from typing import NamedTuple

from postdate.database.connection.query import Connection, Reader, query


class WatchedClock(NamedTuple):
    """What the server's clock shows, and what the nodes have recorded about it."""

    machine: datetime
    at: datetime
    """The last believed time; initially that of the creation of the schema."""
    watched_since: datetime
    """Since when the node that recorded it has watched the clock without a gap."""
    confirmations: int
    """How often a person has confirmed the clock."""
    doubt: str | None
    """Why a node does not believe the clock, or None."""


async def read(reader: Reader) -> WatchedClock:
    """Read the clock, and what was recorded about it."""
    return WatchedClock(*await reader.fetchrow(query("clock_watch_read")))


async def record(
    connection: Connection,
    at: datetime,
    watched_since: datetime,
    confirmations: int,
    doubt: str | None,
) -> None:
    """Record the time that a node believes, and whether it is the clock's."""
    await connection.execute(query("clock_watch_record"), at, watched_since, confirmations, doubt)


async def confirm(connection: Connection) -> bool:
    """Record that a person has confirmed the clock; return whether a node doubted it."""
    return bool(await connection.fetchval(query("clock_watch_confirm")))
