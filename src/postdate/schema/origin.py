"""Where the schema of a database came from."""

from postdate.database.connection.database import SCHEMA, Connection
from postdate.database.connection.session import DatabaseSession


async def describe_origin(connection: DatabaseSession | Connection) -> str:
    """Say which postdate made a database, and when."""
    if await connection.fetchval("SELECT to_regclass($1)", f"{SCHEMA}.function_file") is None:
        return "another postdate"
    made = await connection.fetchval(
        "SELECT format('postdate %s on %s UTC', max(release), "  # noqa: S608 - a constant
        "to_char(min(applied_at) AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI')) "
        f"FROM {SCHEMA}.function_file"
    )
    return str(made)
