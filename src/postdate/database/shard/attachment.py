"""Attachment: the database node to which a process sends its hot statements.

Every node of a Citus cluster can plan for all shards. A statement about shards of the node itself
needs no other node: claims, records and settlement of its own buckets then cost about the same as
on one PostgreSQL. Everything else still goes through the coordinator.
"""

from typing import Final

from postdate.core.log import Log
from postdate.database.connection import pool
from postdate.database.connection.address import DatabaseNode
from postdate.database.connection.database import CONNECT_SECONDS, Database
from postdate.database.connection.error import DatabaseError
from postdate.database.connection.query import Reader, query
from postdate.database.connection.writer import Writer

log = Log()

COORDINATOR: Final = 0
"""The group of the coordinator, which a process is attached to anyway."""


async def owners(reader: Reader) -> dict[int, DatabaseNode]:
    """Return the database node of each bucket."""
    rows = await reader.fetch(query("shard_owners"))
    return {row["bucket"]: DatabaseNode(*row[1:]) for row in rows}


async def attach(database: Database, node: DatabaseNode) -> None:
    """Send hot statements to a database node; retry if it cannot be reached."""
    known = database.shard_map
    if known.open_writer is None or node == known.attached:
        return
    left: Writer = database.near
    near: Writer = database
    if node.group != COORDINATOR:
        try:
            opened = await known.open_writer(node)
        except DatabaseError as error:
            log.warning(
                "database_node.unreachable", host=node.host, port=node.port, error=str(error)
            )
            return
        near = Writer(opened, database.writer, database.belief)
        near.on_commit = database.on_commit
    database.near, known.attached = near, node
    log.info("database_node.attached", host=node.host, port=node.port)
    if left is not database:
        await pool.close(left.writer, CONNECT_SECONDS)
