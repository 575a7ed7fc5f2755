"""Partitions of history, made ahead."""

from postdate.store.database import Connection
from postdate.store.query import query


async def ahead(connection: Connection, weeks: int) -> int:
    """Make what is missing up to `weeks` ahead and say how many were made."""
    made: int = await connection.fetchval(query("partition_ahead"), weeks)
    return made


async def lead(connection: Connection) -> int:
    """Say how many weeks ahead the shortest table is."""
    weeks: int | None = await connection.fetchval(query("partition_lead"))
    return -1 if weeks is None else weeks
