"""Pools: transactions begun on a connection that answers, and a spare pool where one does not."""

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

import asyncpg

SPARED_SECONDS: Final = 1.0
"""How long the first pool is waited for where there is a spare one."""

AWAY_SECONDS: Final = 1.0
"""How long a pool that did not answer is passed over; then one request tries it again."""

LOST: Final = (
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    asyncpg.OperatorInterventionError,
    # The server has ended a session that idled or took too long within a transaction.
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.TransactionTimeoutError,
    # No host of the address is what it should be: the primary is gone, and no other is one yet.
    asyncpg.TargetServerAttributeNotMatched,
    OSError,
    TimeoutError,
)
"""What a broken connection or a stopping server looks like from here."""

Connection = asyncpg.pool.PoolConnectionProxy


class BehindError(Exception):
    """A replica has not replayed yet what a reader has seen already."""


class Begun(NamedTuple):
    """A connection on which a transaction has begun, and whether it is one of the first pool."""

    connection: Connection
    first: bool


class Spares(NamedTuple):
    """Pools for while another is away; none of them is connected to before it is needed.

    With a `replica` that serves the reads, `reader` is the primary for what the replica lacks.
    Without one, `reader` is any host of the address for while the primary is gone.
    """

    reader: asyncpg.Pool | None = None
    look_up: asyncpg.Pool | None = None
    replica: asyncpg.Pool | None = None

    @property
    def replica_reads(self) -> bool:
        """Say whether reads go to a replica even while all is well."""
        return self.replica is not None


class Sources:
    """A pool and, perhaps, a spare one for while it does not answer."""

    def __init__(self, first: asyncpg.Pool, spare: asyncpg.Pool | None, seconds: float) -> None:
        self._seconds = seconds
        self.first = first
        self.spare = spare
        self._failed = False
        self._again_at = 0.0

    @property
    def away(self) -> bool:
        """Say whether the first pool did not answer when it was last asked."""
        return self._failed

    @asynccontextmanager
    async def begin(self, begin: Callable[[Connection], Awaitable[object]]) -> AsyncIterator[Begun]:
        """Begin on the first pool, or on the spare one if that does not answer or is behind."""
        held = None
        if self.spare is None:
            held = await take(self.first, begin, self._seconds)
        elif not self._failed or time.monotonic() >= self._again_at:
            held = await self._try_first(begin)
        if held is None and self.spare is not None:
            async with begun(self.spare, begin, self._seconds) as connection:
                yield Begun(connection, first=False)
        elif held is not None:
            try:
                yield Begun(held, first=True)
            finally:
                await self.first.release(held)

    async def _try_first(
        self, begin: Callable[[Connection], Awaitable[object]]
    ) -> Connection | None:
        """Begin on the first pool; None where it does not answer soon, or is behind."""
        if self._failed:
            # While this one tries, the others need not.
            self._again_at = time.monotonic() + SPARED_SECONDS + AWAY_SECONDS
        pool = self.first
        busy = not pool.get_idle_size() and pool.get_size() >= pool.get_max_size()
        try:
            held = await take(pool, begin, self._seconds if busy else SPARED_SECONDS)
        except BehindError:
            return None
        except LOST as error:
            if busy and isinstance(error, TimeoutError):
                raise
            self._failed = True
            self._again_at = time.monotonic() + AWAY_SECONDS
            return None
        self._failed = False
        return held


async def take(
    pool: asyncpg.Pool,
    begin: Callable[[Connection], Awaitable[object]],
    seconds: float,
) -> Connection:
    """Take a connection on which a transaction was begun; the caller gives it back.

    Whoever waits here may be cancelled at any await, because its client has gone. The driver takes
    a connection and gives it back whole even then: it finishes giving back in a task of its own,
    and rolls back what is still open.
    """
    held = [await pool.acquire(timeout=seconds)]
    try:
        try:
            await begin(held[0])
        except LOST:
            await pool.release(held.pop())
            # A restarted server has closed every idle connection; none of them is worth a try.
            await pool.expire_connections()
            held.append(await pool.acquire(timeout=seconds))
            await begin(held[0])
    except BaseException:
        if held:
            await pool.release(held.pop())
        raise
    return held[0]


@asynccontextmanager
async def begun(
    pool: asyncpg.Pool, begin: Callable[[Connection], Awaitable[object]], seconds: float
) -> AsyncIterator[Connection]:
    """Take a connection and begin; give it back on every way out."""
    held = await take(pool, begin, seconds)
    try:
        yield held
    finally:
        await pool.release(held)
