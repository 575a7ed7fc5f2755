"""Hold up commits over several database nodes for a moment, so that all nodes show one state.

Citus commits at one database node after the other: a reader meanwhile sees a part of what was
done. Where such a commit began it is written down before anything is prepared, and the table in
which it is written down stays locked until every node has committed.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from postdate.core.log import Log
from postdate.database.connection.database import Connection, Database
from postdate.database.connection.error import (
    LockNotAvailableError,
    PermissionDeniedError,
    UnavailableError,
)
from postdate.database.connection.pooled import Transaction
from postdate.database.connection.query import query

log = Log()

WAIT_SECONDS: Final = 150.0
"""How long a commit may be under way or in doubt: Citus ends those in doubt every minute."""

REST_SECONDS: Final = 0.5
"""How long commits go on undisturbed before they are held up again."""

IN_DOUBT: Final = "a commit over several database nodes is in doubt: Citus has not ended it yet"
FENCE_LOST: Final = "the session that held commits up has ended: others could commit meanwhile"


@asynccontextmanager
async def held_up(database: Database) -> AsyncIterator[None]:
    """Let no commit over several database nodes begin; none is under way or in doubt by then."""
    async with database.connection() as connection:
        holding = await _hold_up(connection)
        try:
            yield
            if holding is not None and connection.is_closed():
                # The server ended the session, for example because it was idle for too long.
                raise UnavailableError(FENCE_LOST)
        finally:
            if holding is not None and not connection.is_closed():
                await holding.rollback()


async def wait_complete(database: Database) -> None:
    """Wait until every node shows what any of them shows now."""
    if database.sharded:
        async with held_up(database):
            pass


async def _hold_up(connection: Connection) -> Transaction | None:
    """Begin the transaction that holds commits up, as soon as none is in the midst of it."""
    until = time.monotonic() + WAIT_SECONDS
    while True:
        holding = connection.transaction()
        await holding.start()
        try:
            if await _is_quiet(connection):
                return holding
        except PermissionDeniedError as error:
            await holding.rollback()
            log.warning("shard.commits_go_on", error=str(error))
            return None
        except LockNotAvailableError:
            pass
        except BaseException:
            await holding.rollback()
            raise
        await holding.rollback()
        if time.monotonic() > until:
            raise UnavailableError(IN_DOUBT)
        await asyncio.sleep(REST_SECONDS)


async def _is_quiet(connection: Connection) -> bool:
    """Lock the record of commits at every node; return whether nothing is left prepared."""
    await connection.execute(query("shard_wait_briefly"))
    await connection.execute(query("shard_hold_commits"))
    await connection.execute(query("shard_hold_commits_there"))
    # Only now does none begin anywhere: what is prepared still is in doubt.
    here = await connection.fetchval(query("shard_hold_commits"))
    there = await connection.fetchval(query("shard_hold_commits_there"))
    return here == there == 0
