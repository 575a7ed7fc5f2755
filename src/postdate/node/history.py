"""Detach the weeks of history that are past their retention."""

from typing import Final

from postdate.core.log import Log
from postdate.database.connection.database import Database
from postdate.database.connection.error import PartitionRefusedError
from postdate.monitor.store import history as store
from postdate.node.node import Node
from postdate.runtime.loop import Loop

log = Log()

RETENTION: Final = "history.retention_days"
PRUNED: Final = ("attempt", "event")
"""What leaves by itself when the retention says so. Money never does; jobs have their own rule."""

PRUNE_SECONDS: Final = 3600.0


async def _detach(database: Database, name: str) -> None:
    try:
        async with database.write() as connection:
            await store.detach(connection, name, money=False)
    except PartitionRefusedError as error:
        # Something in it is still open; the next week may be detached anyway.
        log.info("history.kept", partition=name, reason=str(error))
    else:
        log.info("history.detached", partition=name)


def loops(node: Node) -> list[Loop]:
    """Return the loop that detaches weeks past their retention."""

    async def run_once(_: int) -> int:
        async with node.database.connection() as connection:
            days = node.runtime.integer(RETENTION)
            names = await store.list_older(connection, PRUNED, days) if days else []
        for name in names:
            await _detach(node.database, name)
        return 0

    return [Loop("history", run_once, limit=1, poll_seconds=PRUNE_SECONDS)]
