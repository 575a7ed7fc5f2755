"""What becomes of a commit that was acknowledged, as this node's sessions are set up."""

from postdate.model.durability import Durability
from postdate.store.connection.database import Connection
from postdate.store.connection.query import query


async def read(connection: Connection) -> Durability:
    """Ask the server, within a session of ours: roles and databases may have their own settings."""
    row = await connection.fetchrow(query("durability_read"))
    if row is None:
        raise LookupError("a query without a table gave no row")
    return Durability(*row)
