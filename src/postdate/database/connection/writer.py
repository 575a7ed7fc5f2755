"""Run write transactions on a pool, or on a spare pool if it does not answer."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, Final

import asyncpg

from postdate.core import test_clock
from postdate.core.failpoint import reach
from postdate.core.log import Log
from postdate.database.connection import freshness
from postdate.database.connection.clock_belief import ClockBelief
from postdate.database.connection.error import (
    CommitUnknownError,
    DatabaseError,
    NoAnswerError,
    StorageFullError,
    UnavailableError,
    translated,
)
from postdate.database.connection.pool import Begun, Connection, Sources, acquire, release
from postdate.database.connection.pooled import Transaction

log = Log()

ACQUIRE_SECONDS: Final = 5
"""How long a caller waits for a free connection before it is refused."""

BEGIN_SECONDS: Final = 5
"""How long a connection may take to begin a transaction, or to read: then another one is tried."""

BEFORE: Final = "before_commit"
AFTER: Final = "after_commit"


class Writer:
    """A pool that writes for all tenants, and a spare pool for while it does not answer."""

    def __init__(
        self,
        writer: asyncpg.Pool,
        spare: asyncpg.Pool | None = None,
        belief: ClockBelief | None = None,
    ) -> None:
        self.writer = writer
        self.belief = belief or ClockBelief()
        """How far this process believes the database's clock; every session is informed."""
        self.on_commit: list[Callable[[], None]] = []
        """Called after each transaction of this process that wrote: hints, never relied upon."""
        self.storage_full = False
        """Whether a write found the disk full since a heartbeat last found room."""
        self.replica_reads = False
        """Whether reads go to a replica even while all is well."""
        self.freshness = 0
        """The log position that a replica must have replayed to see our commits."""
        self._writes = Sources(writer, spare, ACQUIRE_SECONDS, self.belief)

    @contextmanager
    def _noting(self) -> Iterator[None]:
        """Translate errors of the driver, and remember that the disk is full."""
        try:
            with translated:
                yield
        except StorageFullError:
            self.storage_full = True
            raise

    @asynccontextmanager
    async def connection(self, seconds: float = ACQUIRE_SECONDS) -> AsyncIterator[Connection]:
        """Take a writer connection for statements that need no transaction around them.

        The time bounds waiting for a free one, and giving it back when the server is gone.
        """
        if test_clock.current_tenant() is not None:
            # What the clock shows is said to one transaction at a time.
            async with self.write() as connection:
                yield connection
            return
        if self._writes.spare is not None:
            async with self._writes.begin(_begin_nothing) as (held, *_):
                with self._noting():
                    yield held
            return
        held = await acquire(self.writer, seconds)
        try:
            with self._noting():
                await held.inform(self.belief)
                yield held
        finally:
            await release(self.writer, held)

    @asynccontextmanager
    async def write(self, failpoint: str = "") -> AsyncIterator[Connection]:
        """Run a READ COMMITTED transaction as the writer; report an interrupted commit as unknown.

        `failpoint` names the commit for the tests that end a process around it.
        """
        transactions: list[Transaction] = []

        async def start(connection: Connection) -> None:
            async with asyncio.timeout(BEGIN_SECONDS):
                transactions.append(await _start(connection))

        async with self._writes.begin(start) as (connection, *_):
            try:
                with self._noting():
                    yield connection
            except BaseException as error:
                await self._suspect(error)
                await quietly(transactions[-1].__aexit__(type(error), error, None))
                raise
            reach(failpoint, BEFORE)
            try:
                await _commit(connection, transactions[-1])
            except CommitUnknownError as error:
                await self._suspect(error.__cause__)
                raise
            reach(failpoint, AFTER)
            await self._follow(connection)

    @asynccontextmanager
    async def after(
        self, look: Callable[[Connection], Awaitable[object]], failpoint: str = ""
    ) -> AsyncIterator[Begun]:
        """Run a read, then one statement that is its own transaction; yield what was read, too.

        A read on a lost connection is repeated on another one. The statement never is: if it gets
        no answer, its commit is unknown.
        """
        if test_clock.current_tenant() is not None:
            async with self.write() as connection:
                yield Begun(connection, first=True, found=await look(connection))
            return

        async def begin(connection: Connection) -> object:
            async with asyncio.timeout(BEGIN_SECONDS):
                return await look(connection)

        async with self._writes.begin(begin) as begun:
            reach(failpoint, BEFORE)
            with _warnings(begun.connection) as warnings:
                try:
                    with translated:
                        yield begun
                except StorageFullError:
                    self.storage_full = True
                    raise
                except UnavailableError as error:
                    await self._suspect(error)
                    raise CommitUnknownError(str(error)) from error
            _refuse_warned(warnings)
            reach(failpoint, AFTER)
            await self._follow(begun.connection)

    async def _follow(self, connection: Connection) -> None:
        """Send wake-up hints after a commit, and remember its log position for replicas."""
        for hint in self.on_commit:
            hint()
        if self.replica_reads:
            self.freshness = max(self.freshness, await freshness.committed(connection))

    async def _suspect(self, error: BaseException | None) -> None:
        """After one connection got no answer in time, stop waiting for the others."""
        if isinstance(error, NoAnswerError):
            await self.writer.expire_connections()


async def _begin_nothing(_: Connection) -> None:
    """Begin no transaction: single statements follow."""


async def _start(connection: Connection) -> Transaction:
    transaction = connection.transaction()
    # Entered, not started: what is cancelled in between is then rolled back without a complaint.
    await transaction.__aenter__()
    await follow_clock(connection)
    return transaction


async def follow_clock(connection: Connection) -> None:
    """Let a transaction follow the clock of a tenant in test mode, on every node it reaches."""
    if (tenant_id := test_clock.current_tenant()) is None:
        return
    at = await connection.fetchval("SELECT at FROM test_clock WHERE tenant_id = $1", tenant_id)
    if at is not None:
        await connection.execute(f"SET LOCAL postdate.clock = '{at.isoformat()}'")


@contextmanager
def _warnings(connection: Connection) -> Iterator[list[str]]:
    """Collect the warnings that the server sends meanwhile."""
    found: list[str] = []

    def keep_warning(_: Any, message: asyncpg.PostgresLogMessage) -> None:
        if message.severity_en == "WARNING":
            found.append(str(message))

    with translated:  # of a connection that was lost before the commit began
        connection.lent.add_log_listener(keep_warning)
    try:
        yield found
    finally:
        with suppress(UnavailableError), translated:  # a lost connection has let go of us already
            connection.lent.remove_log_listener(keep_warning)


def _refuse_warned(warnings: Sequence[str]) -> None:
    """Treat a commit with a warning as unknown.

    PostgreSQL answers success with a warning when waiting for a synchronous standby was cancelled:
    the commit is local only, and may vanish with a failover.
    """
    if warnings:
        raise CommitUnknownError(warnings[0])


async def _commit(connection: Connection, transaction: Transaction) -> None:
    with _warnings(connection) as warnings:
        try:
            with translated:
                await transaction.__aexit__(None, None, None)
        except UnavailableError as error:
            raise CommitUnknownError(str(error)) from error
    _refuse_warned(warnings)


async def quietly(ending: Awaitable[object]) -> None:
    """Wait for the end of a transaction, which a lost connection has ended already."""
    try:
        with translated:
            await ending
    except DatabaseError as error:
        log.debug("transaction.lost", error=str(error))
