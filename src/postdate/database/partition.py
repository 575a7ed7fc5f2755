"""Create partitions of history ahead of time, and move rows that block them."""

from datetime import datetime
from typing import NamedTuple

from postdate.database.connection.query import Connection, Reader, fetch_all, query


class PartitionsMade(NamedTuple):
    """How many partitions were made, and the names of the ones that could not be."""

    made: int
    blocked: list[str]


class Strays(NamedTuple):
    """How many rows of one week are in the default partition of a table."""

    parent: str
    monday: datetime
    rows: int


async def create_ahead(connection: Connection, weeks: int) -> PartitionsMade:
    """Create the missing partitions up to `weeks` ahead; a failure stops no other table."""
    row = await connection.fetchrow(query("partition_create_ahead"), weeks)
    return PartitionsMade(*row) if row else PartitionsMade(0, [])


async def weeks_ahead(reader: Reader) -> int:
    """Return how many weeks ahead the shortest table is."""
    weeks: int | None = await reader.fetchval(query("partition_weeks_ahead"))
    return -1 if weeks is None else weeks


async def list_misplaced(reader: Reader) -> list[Strays]:
    """List the rows in the default partitions, at most 10,000 of each table."""
    return await fetch_all(reader, Strays, "partition_list_misplaced")


async def move_misplaced(connection: Connection, parent: str, monday: datetime) -> int:
    """Make the partition of a week and move its rows out of the default partition."""
    await connection.execute(query("partition_patience"))
    return await connection.fetchval(query("partition_move_misplaced"), parent, monday)
