"""Bring the schema up to date when a server starts; write only where something is to be changed.

A start must succeed while nothing can be written: commits may wait for a standby, or the server may
be one.
"""

from typing import Final

from postdate.database import obstacle, partition
from postdate.database.connection.database import (
    CLIENT,
    CONNECT_SECONDS,
    OWNER,
    READER,
    SCHEMA,
    WRITER,
)
from postdate.database.connection.error import PermissionDeniedError
from postdate.database.connection.session import DatabaseSession, connect_alone
from postdate.schema import migrate

MIN_WEEKS: Final = 2
"""With fewer weeks of partitions ahead a start makes them; of more, the hourly task takes care."""

_READING: Final = {
    "search_path": SCHEMA,
    "statement_timeout": "5s",
    "lock_timeout": "2s",
    "application_name": "postdate start",
}


async def ensure_current(dsn: str) -> None:
    """Apply what is pending as the owner; where there is nothing, only read."""
    connection = await connect_alone(dsn, CONNECT_SECONDS, _READING)
    try:
        current = await _is_current(connection)
    finally:
        await connection.close(timeout=CONNECT_SECONDS)
    if not current:
        await migrate.migrate(dsn)


async def _is_current(connection: DatabaseSession) -> bool:
    roles = [OWNER, WRITER, READER, CLIENT]
    known = await connection.fetchval(
        "SELECT count(*) FROM pg_roles WHERE rolname = ANY ($1)", roles
    )
    if known < len(roles) or await migrate.list_outdated(connection):
        return False
    try:
        await connection.execute(f"SET ROLE {OWNER}")
    except PermissionDeniedError:
        return False  # The migration says what to run.
    if await connection.fetchval(
        "SELECT EXISTS (SELECT FROM birthplace WHERE place <> birthplace_now())"
    ):
        return False
    return await partition.weeks_ahead(connection) >= MIN_WEEKS


async def find_obstacle(dsn: str, session: str) -> str | None:
    """Say what the sessions of this name wait for, as far as the server tells this login."""
    connection = await connect_alone(dsn, CONNECT_SECONDS, _READING)
    try:
        waits = await obstacle.session_waits_for(connection, session)
    finally:
        await connection.close(timeout=CONNECT_SECONDS)
    if any(each.event == "SyncRep" for each in waits):
        return f"there is something to write, and {obstacle.STANDBY}"
    if any(each.kind == "Lock" for each in waits):
        return "there is something to write, and another session holds a lock on it"
    return None
