"""Pools: begin transactions on a connection that answers, or on a spare pool."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, NamedTuple

import asyncpg

from postdate.core.log import Log
from postdate.database.connection.clock_belief import ClockBelief
from postdate.database.connection.error import (
    DRIVER_ERRORS,
    DatabaseError,
    NoAnswerError,
    TransientError,
    UnavailableError,
    translated,
)
from postdate.database.connection.pooled import PooledConnection

log = Log()

SPARED_SECONDS: Final = 1.0
"""How long the first pool is waited for where there is a spare one."""

AWAY_SECONDS: Final = 1.0
"""How long a pool that did not answer is passed over; then one request tries it again."""

Connection = PooledConnection


class BehindError(Exception):
    """A replica has not replayed yet what a reader has seen already."""


class Begun(NamedTuple):
    """A connection on which something has begun, and whether it is one of the first pool."""

    connection: Connection
    first: bool
    found: Any
    """What the beginning returned."""


class Spares(NamedTuple):
    """Spare pools for while another pool is away; they connect only when needed.

    With a `replica` that serves the reads, `reader` is the primary for what the replica lacks.
    Without one, `reader` is any host of the address for while the primary is gone.
    """

    reader: asyncpg.Pool | None = None
    look_up: asyncpg.Pool | None = None
    replica: asyncpg.Pool | None = None


class Asides(NamedTuple):
    """Pools beside those of requests: commits that wait hold up neither keys nor the heartbeat.

    They connect only when needed. `look_up` reads keys, `beat` writes the heartbeat, and `probe`
    asks, as the login itself, what keeps the others from their work.
    """

    look_up: asyncpg.Pool | None = None
    beat: asyncpg.Pool | None = None
    probe: asyncpg.Pool | None = None


class Sources:
    """A pool and an optional spare pool for while it does not answer."""

    def __init__(
        self, first: asyncpg.Pool, spare: asyncpg.Pool | None, seconds: float, belief: ClockBelief
    ) -> None:
        self._seconds = seconds
        self._belief = belief
        self.first = first
        self.spare = spare
        self._failed = False
        self._again_at = 0.0

    @property
    def is_away(self) -> bool:
        """Return whether the first pool did not answer when it was last asked."""
        return self._failed

    @asynccontextmanager
    async def begin(self, begin: Callable[[Connection], Awaitable[object]]) -> AsyncIterator[Begun]:
        """Begin on the first pool, or on the spare pool if it does not answer or is behind."""
        pool, spare = self.first, self.spare
        taken = None if spare is None else await self._try_first(begin)
        if taken is None:
            pool = self.first if spare is None else spare
            taken = await take(pool, begin, self._seconds, self._belief)
        held, found = taken
        try:
            yield Begun(held, pool is self.first, found)
        finally:
            await release(pool, held)

    async def _try_first(
        self, begin: Callable[[Connection], Awaitable[object]]
    ) -> tuple[Connection, object] | None:
        """Begin on the first pool; None where it does not answer soon, did not, or is behind."""
        if self._failed and time.monotonic() < self._again_at:
            return None
        if self._failed:
            # While this one tries, the others need not.
            self._again_at = time.monotonic() + SPARED_SECONDS + AWAY_SECONDS
        pool = self.first
        busy = not pool.get_idle_size() and pool.get_size() >= pool.get_max_size()
        try:
            seconds = self._seconds if busy else SPARED_SECONDS
            taken = await take(pool, begin, seconds, self._belief)
        except BehindError:
            return None
        except UnavailableError as error:
            if busy and isinstance(error, NoAnswerError):
                raise
            self._failed = True
            self._again_at = time.monotonic() + AWAY_SECONDS
            return None
        self._failed = False
        return taken


async def acquire(pool: asyncpg.Pool, seconds: float) -> Connection:
    """Take a connection; the time bounds waiting for a free one, and giving it back.

    An error while connecting (for example a role that may not log in for a while) is not the fault
    of the statement.
    """
    try:
        with translated:
            return PooledConnection(await pool.acquire(timeout=seconds))
    except TransientError:
        raise
    except DatabaseError as error:
        raise UnavailableError(str(error), error.sqlstate) from error


async def release(pool: asyncpg.Pool, held: Connection) -> None:
    """Return a connection to its pool; the driver drops one that cannot be given back.

    A failure here is not an error: what was done with the connection, above all a commit, is done.
    """
    try:
        with translated:
            await pool.release(held.lent)
    except DatabaseError as error:
        log.debug("connection.dropped", error=str(error))


async def close(pool: asyncpg.Pool, seconds: float) -> None:
    """Close a pool, waiting this long for running statements."""
    try:
        async with asyncio.timeout(seconds):
            await pool.close()
    except DRIVER_ERRORS:
        pool.terminate()


async def take(
    pool: asyncpg.Pool,
    begin: Callable[[Connection], Awaitable[object]],
    seconds: float,
    belief: ClockBelief,
) -> tuple[Connection, object]:
    """Take a connection on which something was begun, with its result; the caller gives it back.

    The server is informed before how far its clock is believed.
    The caller may be cancelled at any await, because its client has disconnected. Even then the
    driver returns the connection intact: it finishes in a separate task, and rolls back an open
    transaction.
    """
    held = [await acquire(pool, seconds)]
    try:
        try:
            with translated:
                await held[0].lent.inform(belief)  # type: ignore[attr-defined]
                return held[0], await begin(held[0])
        except UnavailableError as error:
            if isinstance(error, NoAnswerError):
                with suppress(DatabaseError):  # it was lost meanwhile
                    held[0].terminate()  # giving it back would wait for an answer once more
            await release(pool, held.pop())
            # A restarted server has closed every idle connection; trying them is pointless.
            await pool.expire_connections()
            held.append(await acquire(pool, seconds))
            with translated:
                await held[0].inform(belief)
                return held[0], await begin(held[0])
    except BaseException:
        if held:
            await release(pool, held.pop())
        raise
