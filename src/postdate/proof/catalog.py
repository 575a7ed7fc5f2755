"""Read the catalog of the schema, to compare it with what a release ships."""

from typing import NamedTuple

from postdate.database.connection.database import LONG_SECONDS
from postdate.database.connection.query import Connection, query


class CatalogLine(NamedTuple):
    """Something that the catalog says of a table or function."""

    kind: str
    subject: str
    detail: str


async def lines(connection: Connection) -> set[CatalogLine]:
    """Read what the catalog says of our schema."""
    rows = await connection.fetch(query("prove_catalog_lines"), timeout=LONG_SECONDS)
    return {CatalogLine(*row) for row in rows}


async def roles(connection: Connection) -> list[tuple[str, str]]:
    """Return the roles that may do more than they should, and what."""
    return [(row[0], row[1]) for row in await connection.fetch(query("prove_catalog_roles"))]


async def clock_ahead(connection: Connection) -> list[str]:
    """Return the time that was recorded of the clock, if it is far ahead of the clock."""
    rows = await connection.fetch(query("prove_catalog_clock_watch"))
    return [row[0] for row in rows]


async def major(connection: Connection) -> int:
    """Return the major version of the server."""
    return int(connection.get_server_version().major)
