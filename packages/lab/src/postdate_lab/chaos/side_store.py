"""The statements of the faults beside the transaction path; names in them are of the catalog."""

from collections.abc import Sequence
from functools import partial
from typing import Final

from postdate.database.connection.query import query
from postdate.database.connection.session import DatabaseSession

_query = partial(query, package="postdate_lab.chaos")

TABLE_ACTIONS: Final = (
    "LOCK TABLE postdate.{} IN ACCESS SHARE MODE NOWAIT",
    "SELECT FROM postdate.{} LIMIT 1",
)
"""What a bound role tries on every table; each must be refused."""


async def tables(connection: DatabaseSession) -> list[str]:
    """Return every table, partitions not counted."""
    return [row["relname"] for row in await connection.fetch(_query("side_fault_tables"))]


async def lock_table(connection: DatabaseSession, table: str) -> None:
    """Lock a table against everybody until the transaction ends."""
    await connection.execute(f"LOCK TABLE {_quoted(table)} IN ACCESS EXCLUSIVE MODE")


async def rights(connection: DatabaseSession, table: str, role: str) -> list[str]:
    """Return the rights to write that a role has on a table."""
    rows = await connection.fetch(_query("side_fault_rights"), table, role)
    return [row["privilege_type"] for row in rows]


async def revoke(connection: DatabaseSession, table: str, role: str, lost: Sequence[str]) -> None:
    """Take rights from a role."""
    await connection.execute(f"REVOKE {', '.join(lost)} ON {_quoted(table)} FROM {_quoted(role)}")


async def grant(connection: DatabaseSession, table: str, role: str, given: Sequence[str]) -> None:
    """Give rights to a role."""
    await connection.execute(f"GRANT {', '.join(given)} ON {_quoted(table)} TO {_quoted(role)}")


async def make_guest(connection: DatabaseSession, name: str, password: str) -> None:
    """Make a login with a schema of its own, which has no right of Postdate yet."""
    await connection.execute(f"CREATE ROLE {_quoted(name)} LOGIN PASSWORD '{password}'")
    await connection.execute(f"CREATE SCHEMA {_quoted(name)} AUTHORIZATION {_quoted(name)}")
    await connection.execute(f"GRANT CONNECT ON DATABASE postdate TO {_quoted(name)}")


async def try_table(connection: DatabaseSession, action: str, table: str) -> None:
    """Try what a guest may not do."""
    async with connection.transaction():
        await connection.execute(action.format(_quoted(table)))


async def notify(connection: DatabaseSession, count: int) -> None:
    """Flood a channel."""
    await connection.execute(_query("side_fault_notify").replace("$1", str(count)))


async def compute(connection: DatabaseSession) -> None:
    """Keep a processor busy."""
    await connection.execute(_query("side_fault_compute"))


async def enqueue(connection: DatabaseSession) -> None:
    """Accept a job in the caller's transaction."""
    await connection.execute(_query("side_fault_enqueue"))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
