"""The last time at which a settler trusted the database's clock, as the database recorded it."""

from datetime import datetime

from postdate.store.connection.database import Connection
from postdate.store.connection.query import query


async def read(connection: Connection) -> datetime:
    """Read it; the schema begins with the time at which it was made."""
    at: datetime = await connection.fetchval(query("settlement_clock_read"))
    return at


async def record(connection: Connection) -> None:
    """Record the present time: somebody trusts it."""
    await connection.execute(query("settlement_clock_record"))
