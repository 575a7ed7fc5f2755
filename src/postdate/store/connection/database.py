"""Connections: a pool that writes for every tenant, a pool that reads for one."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, Final, TypeVar

import asyncpg

from postdate.model import origin
from postdate.model.failpoint import reach
from postdate.model.log import Log
from postdate.model.tenant import test_clock
from postdate.store.connection import freshness, pool
from postdate.store.connection.combined import Reader
from postdate.store.connection.error import (
    DRIVER_ERRORS,
    CommitUnknownError,
    DatabaseError,
    NoAnswerError,
    UnavailableError,
    translated,
)
from postdate.store.connection.pool import Sources, Spares, acquire, begin_transaction, release
from postdate.store.connection.pooled import Transaction
from postdate.store.connection.tenant_reader import TenantReader

log = Log()

T = TypeVar("T")

SCHEMA: Final = "postdate"
OWNER: Final = "postdate_owner"
WRITER: Final = "postdate_writer"
READER: Final = "postdate_reader"
CLIENT: Final = "postdate_client"
"""May call enqueue, schedule_payment and cancel, and nothing else: for login roles of clients."""

CONNECT_SECONDS: Final = 5
ACQUIRE_SECONDS: Final = 5
"""How long whoever needs a connection waits for a free one before it is told that none is."""

READ_SECONDS: Final = 5
"""The longest that a statement of a reader may take."""

ANSWER_SECONDS: Final = 5
"""How long beyond a statement's own time its answer is waited for: then the server is gone."""

LONG_SECONDS: Final = 86_400.0
"""The time of a statement that reads everything there is, beside `lift_time_limits`."""

TRANSACTION_SECONDS: Final = 20
"""The longest that a transaction of ours may take: what it wrote is visible by then, or never."""

BEFORE: Final = "before_commit"
AFTER: Final = "after_commit"

Connection = pool.Connection


class Database:
    """The pools. Every statement of a node goes through one of them."""

    def __init__(
        self, writer: asyncpg.Pool, reader: asyncpg.Pool, spares: Spares | None = None
    ) -> None:
        self.writer = writer
        self.reader = reader
        self.spares = spares or Spares()
        self.bounds_transactions = False
        """Whether the server ends each of our transactions after TRANSACTION_SECONDS."""
        self.replicated = False
        """Whether commits wait for a standby, as this node last learned."""
        self.sharded = False
        """Whether the tables are distributed over the nodes of a Citus cluster."""
        self.on_commit: list[Callable[[], None]] = []
        """Called after each transaction of this process that wrote: hints, never relied upon."""
        self._epoch = 0.0
        self._reads = Sources(reader, self.spares.reader, ACQUIRE_SECONDS)
        self._primary = Sources(self.spares.reader or reader, None, ACQUIRE_SECONDS)
        self._look_ups = Sources(writer, self.spares.look_up, ACQUIRE_SECONDS)
        self._committed = 0

    async def synchronize(self, reader: Reader | None = None) -> None:
        """Learn the database's time; between two calls the monotonic clock carries it on."""
        if reader is None:
            async with self.connection() as connection:
                await self.synchronize(connection)
            return
        before = time.monotonic()
        [epoch] = await reader.fetchrow("SELECT extract(epoch FROM clock())::float8")
        self._epoch = epoch - (before + time.monotonic()) / 2

    def unix_ms(self) -> int:
        """Return the database's time as this node knows it: for ids, never for a decision."""
        return int((self._epoch + time.monotonic()) * 1000)

    @asynccontextmanager
    async def connection(self, seconds: float = ACQUIRE_SECONDS) -> AsyncIterator[Connection]:
        """Take a connection of the writer's for statements that need no transaction around them.

        The time bounds waiting for a free one, and giving it back when the server is gone.
        """
        if test_clock.current_tenant() is not None:
            # What the clock shows is said to one transaction at a time.
            async with self.write() as connection:
                yield connection
            return
        held = await acquire(self.writer, seconds)
        try:
            with translated:
                yield held
        finally:
            await release(self.writer, held)

    @asynccontextmanager
    async def write(self, failpoint: str = "") -> AsyncIterator[Connection]:
        """Run a READ COMMITTED transaction as the writer; a broken commit is an unknown one.

        `failpoint` names the commit for the tests that end a process around it.
        """
        transactions: list[Transaction] = []

        async def start(connection: Connection) -> None:
            transactions.append(await _start(connection))

        async with begin_transaction(self.writer, start, ACQUIRE_SECONDS) as connection:
            try:
                with translated:
                    yield connection
            except BaseException as error:
                await self._suspect(error)
                await _quietly(transactions[-1].__aexit__(type(error), error, None))
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
    ) -> AsyncIterator[Connection]:
        """Look at something, then run one statement that is a transaction of its own.

        A look on a lost connection is repeated on another one; a statement never is: where it gets
        no answer, its commit is an unknown one.
        """
        if test_clock.current_tenant() is not None:
            async with self.write() as connection:
                await look(connection)
                yield connection
            return
        async with begin_transaction(self.writer, look, ACQUIRE_SECONDS) as connection:
            reach(failpoint, BEFORE)
            with _warnings(connection) as warnings:
                try:
                    with translated:
                        yield connection
                except UnavailableError as error:
                    await self._suspect(error)
                    raise CommitUnknownError(str(error)) from error
            _refuse_warned(warnings)
            reach(failpoint, AFTER)
            await self._follow(connection)

    async def confirm(self) -> None:
        """Wait until a standby has all that we have seen: before an answer is given once more.

        A commit whose wait was cut off (a cancel, a time-out) is visible, and is lost with this
        server. What is written here waits like any commit, and stands behind it in the log.
        """
        if self.replicated:
            async with self.write() as connection:
                await connection.execute("SELECT pg_logical_emit_message(true, 'postdate', '')")

    async def _follow(self, connection: Connection) -> None:
        """Hint at a commit, and remember up to where a replica must replay to know of it."""
        for hint in self.on_commit:
            hint()
        if self.spares.replica_reads:
            self._committed = max(self._committed, await freshness.committed(connection))

    async def _suspect(self, error: BaseException | None) -> None:
        """Where one connection got no answer in time, none of the others is worth a wait."""
        if isinstance(error, NoAnswerError):
            await self.writer.expire_connections()

    @property
    def freshness(self) -> int:
        """Return the log position that a replica must have replayed to know what we committed."""
        return self._committed

    @property
    def primary_away(self) -> bool:
        """Return whether the primary did not answer when a key was last looked up."""
        return self._look_ups.is_away

    @asynccontextmanager
    async def read(self, tenant_id: int) -> AsyncIterator[Connection]:
        """Run a read-only transaction that sees the rows of one tenant and no others.

        A request that changes nothing may be served by a replica that knows what it has seen.
        """
        start = _start_reading_apart if self.sharded else _start_reading
        async with self._reading(lambda held: start(held, tenant_id)) as connection:
            try:
                with translated:
                    yield connection
            finally:
                await _quietly(connection.execute("COMMIT"))

    def tenant_reader(self, tenant_id: int) -> TenantReader:
        """Return what reads for one tenant without a transaction: one round trip a statement."""
        return TenantReader(self, tenant_id)

    async def read_statement(self, tenant_id: int, read: Callable[[Connection], Awaitable[T]]) -> T:
        """Run one statement that sets its tenant itself, with no transaction around it.

        One round trip instead of three. Where the connection turns out to be lost it is run again.
        A test clock, and the other nodes of a sharded database, are told in a transaction.
        """
        found: list[T] = []

        async def run(held: Connection) -> None:
            found[:] = [await read(held)]

        if self.sharded or test_clock.current_tenant() is not None:
            async with self.read(tenant_id) as connection:
                return await read(connection)
        with translated:
            async with self._reading(run):
                return found[0]

    @asynccontextmanager
    async def _reading(
        self, begin: Callable[[Connection], Awaitable[object]]
    ) -> AsyncIterator[Connection]:
        """Begin on a replica that knows what the request has seen, or on the primary."""
        wanted = origin.wanted()
        replica_first = self.spares.replica_reads

        async def start(connection: Connection) -> None:
            if replica_first and wanted > 0:
                await freshness.wait(connection, wanted)
            await begin(connection)

        on_primary = replica_first and wanted == origin.PRIMARY
        async with (self._primary if on_primary else self._reads).begin(start) as (held, first):
            origin.read_from(replica=not on_primary and first == replica_first)
            yield held

    @asynccontextmanager
    async def look_up(self) -> AsyncIterator[Connection]:
        """Read what belongs to no tenant yet, such as a key; a replica does while we must."""
        async with self._look_ups.begin(_start_looking) as (connection, _):
            try:
                with translated:
                    yield connection
            finally:
                await _quietly(connection.execute("COMMIT"))

    async def close(self) -> None:
        """Close both pools, waiting a moment for what is under way."""
        for each in (self.writer, self.reader, self.spares.reader, self.spares.look_up):
            if each is None:
                continue
            try:
                await asyncio.wait_for(each.close(), CONNECT_SECONDS)
            except DRIVER_ERRORS:
                each.terminate()


async def _start(connection: Connection) -> Transaction:
    transaction = connection.transaction()
    # Entered, not started: what is cancelled in between is then rolled back without a complaint.
    await transaction.__aenter__()
    await _follow_clock(connection)
    return transaction


async def _start_reading(connection: Connection, tenant_id: int) -> None:
    # An integer formatted by us, never text from outside: SET takes no parameters.
    await _begin(connection, f"BEGIN READ ONLY; SET LOCAL postdate.tenant_id = {tenant_id:d}")
    await _follow_clock(connection)


async def _start_reading_apart(connection: Connection, tenant_id: int) -> None:
    """Begin with two statements: Citus tells the other nodes all that came along with a SET."""
    await _begin(connection, "BEGIN READ ONLY")
    await _begin(connection, f"SET LOCAL postdate.tenant_id = {tenant_id:d}")
    await _follow_clock(connection)


async def _follow_clock(connection: Connection) -> None:
    """Let a transaction follow the clock of a tenant in test mode, on every node it reaches."""
    if (tenant_id := test_clock.current_tenant()) is None:
        return
    at = await connection.fetchval("SELECT at FROM test_clock WHERE tenant_id = $1", tenant_id)
    if at is not None:
        await connection.execute(f"SET LOCAL postdate.clock = '{at.isoformat()}'")


async def _start_looking(connection: Connection) -> None:
    await _begin(connection, "BEGIN READ ONLY")


async def _begin(connection: Connection, statement: str) -> None:
    try:
        # A server that is frozen holds its connections open: whoever waits must not wait long.
        await connection.execute(statement, timeout=ANSWER_SECONDS)
    except asyncio.CancelledError:
        await _quietly(connection.execute("ROLLBACK"))
        raise


@contextmanager
def _warnings(connection: Connection) -> Iterator[list[str]]:
    """Gather the warnings that the server sends meanwhile."""
    found: list[str] = []

    def keep_warning(_: Any, message: asyncpg.PostgresLogMessage) -> None:
        if message.severity_en == "WARNING":
            found.append(str(message))

    with translated:  # of a connection that was lost before the commit began
        connection.add_log_listener(keep_warning)
    try:
        yield found
    finally:
        with suppress(UnavailableError):  # a lost connection has let go of us already
            connection.remove_log_listener(keep_warning)


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


async def _quietly(ending: Awaitable[object]) -> None:
    try:
        with translated:
            await ending
    except DatabaseError as error:
        log.debug("transaction.lost", error=str(error))


async def lift_time_limits(connection: Connection) -> None:
    """Let the transaction under way take as long as it takes: it reads everything there is."""
    await connection.execute(
        """SET LOCAL statement_timeout = 0;
           SET LOCAL idle_in_transaction_session_timeout = 0;
           SELECT set_config('transaction_timeout', '0', true)
            WHERE current_setting('transaction_timeout', true) IS NOT NULL"""
    )
