"""What becomes of a commit that was acknowledged, as this node's sessions are set up."""

from postdate.model.durability import Durability
from postdate.store.connection.query import Reader, query


async def read(reader: Reader) -> Durability:
    """Ask the server, within a session of ours: roles and databases may have their own settings."""
    row = await reader.fetchrow(query("durability_read"))
    if row is None:
        raise LookupError("a query without a table gave no row")
    return Durability(*row)
