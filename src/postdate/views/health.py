"""What is not ready, and why."""

import asyncpg

from postdate.store import partition
from postdate.store.database import LOST, Database

LEAST_WEEKS = 2
"""With fewer weeks of partitions ahead, something has kept the maintenance from its work."""


async def readiness(database: Database) -> list[tuple[str, str]]:
    """Ask the database whether it can be written; give (name, reason) for each thing amiss."""
    try:
        async with database.writer.acquire(timeout=2) as connection:
            if await connection.fetchval(
                "SELECT pg_is_in_recovery() OR current_setting('transaction_read_only')::boolean",
                timeout=2,
            ):
                return [("database", "it is read-only: a standby, or a primary being replaced")]
            weeks = await partition.lead(connection)
    except (asyncpg.PostgresError, *LOST) as error:
        return [("database", f"it does not answer: {type(error).__name__} {error}".strip())]
    if weeks < LEAST_WEEKS:
        return [("partitions", f"history has partitions for only {weeks} weeks ahead")]
    return []
