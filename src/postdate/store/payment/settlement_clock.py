"""The last time at which a settler trusted the database's clock, as the database recorded it."""

from datetime import datetime
from typing import NamedTuple

from postdate.store.connection.query import Connection, query


class TrustedClock(NamedTuple):
    """The last trusted time, and how often a person has confirmed the clock."""

    at: datetime
    confirmations: int


async def read(connection: Connection) -> TrustedClock:
    """Read the trusted time; initially it is the time at which the schema was created."""
    [row] = await connection.fetch(query("settlement_clock_read"))
    return TrustedClock(*row)


async def record(connection: Connection, trusted: datetime) -> None:
    """Record a trusted time."""
    await connection.execute(query("settlement_clock_record"), trusted)


async def confirm(connection: Connection) -> None:
    """Record that a person has confirmed the database's clock."""
    await connection.execute(query("settlement_clock_confirm"))
