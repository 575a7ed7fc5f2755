"""The last time at which a settler trusted the database's clock, as the database recorded it."""

from datetime import datetime
from typing import NamedTuple

from postdate.store.connection.query import Connection, query


class TrustedClock(NamedTuple):
    """The last trusted time, and how often a person has confirmed the clock."""

    at: datetime
    confirmations: int


async def read(connection: Connection) -> TrustedClock:
    """Read it; the schema begins with the time at which it was made."""
    [row] = await connection.fetch(query("settlement_clock_read"))
    return TrustedClock(*row)


async def record(connection: Connection, trusted: datetime) -> None:
    """Record a time that somebody trusts."""
    await connection.execute(query("settlement_clock_record"), trusted)


async def confirm(connection: Connection) -> None:
    """Record that a person has looked at the database's clock and found it right."""
    await connection.execute(query("settlement_clock_confirm"))
