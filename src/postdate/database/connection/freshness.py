"""How far a replica has replayed: a client that has seen a commit must not read an older state."""

import asyncio
import time
from contextlib import suppress
from typing import Final

from postdate.database.connection.error import DatabaseError
from postdate.database.connection.pool import BehindError, Connection

WAIT_SECONDS: Final = 0.3
"""How long a read waits for the replica before it goes to the primary."""

FAR_BYTES: Final = 2**30
"""A replica that is further behind does not get there in that time: no read waits for it."""

STEP_SECONDS: Final = 0.01
ASK_SECONDS: Final = 2.0

# Positions of the write-ahead log are numbers of bytes. One that is no replica has no such lag.
_REPLAYED: Final = """SELECT CASE WHEN pg_is_in_recovery()
                                  THEN (pg_last_wal_replay_lsn() - '0/0')::bigint END"""
_COMMITTED: Final = """SELECT CASE WHEN NOT pg_is_in_recovery()
                                   THEN (pg_current_wal_insert_lsn() - '0/0')::bigint END"""


async def wait(connection: Connection, wanted: int) -> None:
    """Wait briefly until a replica has replayed up to this position; raise if it takes longer."""
    until = time.monotonic() + WAIT_SECONDS
    while True:
        replayed = await connection.fetchval(_REPLAYED, timeout=ASK_SECONDS)
        if replayed is None or replayed >= wanted:
            return
        if time.monotonic() >= until or wanted - replayed > FAR_BYTES:
            raise BehindError
        await asyncio.sleep(STEP_SECONDS)


async def committed(connection: Connection) -> int:
    """Return the log position after a commit; 0 if it is unknown."""
    with suppress(DatabaseError):
        return int(await connection.fetchval(_COMMITTED, timeout=ASK_SECONDS) or 0)
    return 0
