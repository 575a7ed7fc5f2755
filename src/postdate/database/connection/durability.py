"""Read how durable acknowledged commits are under the settings of this node's sessions."""

from postdate.database.connection.query import Reader, query
from postdate.database.durability_rule import Durability


async def read(reader: Reader) -> Durability:
    """Read the settings in one of our own sessions: roles and databases may override them."""
    row = await reader.fetchrow(query("durability_read"))
    if row is None:
        raise LookupError("a query without a table gave no row")
    return Durability(*row)
