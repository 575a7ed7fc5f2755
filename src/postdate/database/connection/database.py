"""The pools of a node: one writes for all tenants, one reads on behalf of a single tenant."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, TypeVar

import asyncpg

from postdate.core import origin, test_clock
from postdate.database.connection import freshness, pool
from postdate.database.connection.clock import node_clock
from postdate.database.connection.error import translated
from postdate.database.connection.pool import Asides, Begun, Sources, Spares
from postdate.database.connection.query import Reader
from postdate.database.connection.shard_map import ShardMap
from postdate.database.connection.tenant_reader import TenantReader
from postdate.database.connection.writer import ACQUIRE_SECONDS, Writer, follow_clock, quietly

T = TypeVar("T")

SCHEMA: Final = "postdate"
OWNER: Final = "postdate_owner"
WRITER: Final = "postdate_writer"
READER: Final = "postdate_reader"
CLIENT: Final = "postdate_client"
"""May call enqueue, schedule_payment and cancel, and nothing else: for login roles of clients."""

CONNECT_SECONDS: Final = 5
READ_SECONDS: Final = 5
"""The longest that a statement of a reader may take."""

ANSWER_SECONDS: Final = 5
"""How long beyond a statement's own time its answer is waited for: then the server is gone."""

LONG_SECONDS: Final = 86_400.0
"""The time of a statement that reads everything there is, beside `lift_time_limits`."""

TRANSACTION_SECONDS: Final = 20
"""The longest that a transaction of ours may take: what it wrote is visible by then, or never."""

Connection = pool.Connection


class Database(Writer):
    """The pools. Every statement of a node goes through one of them."""

    def __init__(
        self,
        writer: asyncpg.Pool,
        reader: asyncpg.Pool,
        spares: Spares | None = None,
        asides: Asides | None = None,
    ) -> None:
        super().__init__(writer)
        self.near: Writer = self
        """For what is done all the time: the database node that holds most of what is touched.

        It is this one where there is no other; see `shard.attachment`.
        """
        self.unix_ms = node_clock.unix_ms
        """Returns this node's estimate of the database's time: for ids, never for a decision."""
        self.shard_map = ShardMap()
        self.reader = reader
        self.spares = spares or Spares()
        self.replica_reads = self.spares.replica is not None
        self.may_read_old = self.spares.reader is not None
        """Whether a replica may answer a read at all."""
        self.asides = asides or Asides()
        self.writable = True
        """Whether commits succeed, as the heartbeat last found."""
        self.bounds_transactions = False
        """Whether the server ends each of our transactions after TRANSACTION_SECONDS."""
        self.replicated = False
        """Whether commits wait for a standby, as this node last learned."""
        self.sharded = False
        """Whether the tables are distributed over the nodes of a Citus cluster."""
        self._reads = Sources(reader, self.spares.reader, ACQUIRE_SECONDS, self.belief)
        self._primary = Sources(self.spares.reader or reader, None, ACQUIRE_SECONDS, self.belief)
        looker = self.asides.look_up or writer
        self._look_ups = Sources(looker, self.spares.look_up, ACQUIRE_SECONDS, self.belief)

    async def synchronize(self, reader: Reader | None = None) -> None:
        """Read the database's time; between two calls the monotonic clock extrapolates it."""
        if reader is None:
            async with self.connection() as connection:
                await self.synchronize(connection)
            return
        asked_at = time.monotonic()
        [seconds] = await reader.fetchrow("SELECT extract(epoch FROM clock())::float8")
        node_clock.learn(seconds, asked_at)

    async def confirm(self) -> None:
        """Wait until a standby has everything that we have seen, before repeating an answer.

        A commit whose wait for the standby was interrupted (a cancel, a timeout) is visible, but
        would be lost with this server. This method writes something that waits like any commit and
        comes after it in the log.
        """
        if self.replicated:
            async with self.write() as connection:
                await connection.execute("SELECT pg_logical_emit_message(true, 'postdate', '')")

    @property
    def primary_away(self) -> bool:
        """Return whether the primary did not answer when a key was last looked up."""
        return self._look_ups.is_away

    @asynccontextmanager
    async def read(self, tenant_id: int) -> AsyncIterator[Connection]:
        """Run a read-only transaction that sees the rows of one tenant and no others.

        A replica may serve it if it has replayed everything that the request has seen.
        """
        start = _start_reading_apart if self.sharded else _start_reading
        async with self._reading(lambda held: start(held, tenant_id)) as begun:
            try:
                with translated:
                    yield begun.connection
            finally:
                await quietly(begun.connection.execute("COMMIT"))

    def tenant_reader(self, tenant_id: int) -> TenantReader:
        """Return a reader for one tenant: one round trip per statement, no transaction."""
        return TenantReader(self, tenant_id)

    async def read_statement(self, tenant_id: int, read: Callable[[Connection], Awaitable[T]]) -> T:
        """Run one statement that sets its tenant itself, with no transaction around it.

        This takes one round trip instead of three. If the connection turns out to be lost, the
        statement is run again. For a test clock or a sharded database a transaction is needed.
        """
        if self.sharded or test_clock.current_tenant() is not None:
            async with self.read(tenant_id) as connection:
                return await read(connection)
        with translated:
            async with self._reading(read) as begun:
                found: T = begun.found
                return found

    @asynccontextmanager
    async def _reading(
        self, begin: Callable[[Connection], Awaitable[object]]
    ) -> AsyncIterator[Begun]:
        """Begin on a replica that has replayed what the request has seen, or on the primary."""
        if not self.replica_reads:
            async with self._reads.begin(begin) as begun:
                if not begun.first:
                    origin.read_from(replica=True)
                yield begun
            return
        wanted = origin.wanted()

        async def start(connection: Connection) -> object:
            if wanted > 0:
                await freshness.wait(connection, wanted)
            return await begin(connection)

        on_primary = wanted == origin.PRIMARY
        async with (self._primary if on_primary else self._reads).begin(start) as begun:
            origin.read_from(replica=not on_primary and begun.first)
            yield begun

    @asynccontextmanager
    async def look_up(self) -> AsyncIterator[Connection]:
        """Read data of no tenant, such as a key; use a replica if the primary is away."""
        async with self._look_ups.begin(_start_looking) as (connection, *_):
            try:
                with translated:
                    yield connection
            finally:
                await quietly(connection.execute("COMMIT"))

    @asynccontextmanager
    async def beating(self, seconds: float) -> AsyncIterator[Connection]:
        """Take the connection of the heartbeat."""
        async with _taken(self.asides.beat or self.writer, seconds) as connection:
            await connection.inform(self.belief)
            yield connection

    @asynccontextmanager
    async def probing(self, seconds: float) -> AsyncIterator[Connection]:
        """Take the connection that asks what keeps the others from their work."""
        async with _taken(self.asides.probe or self.writer, seconds) as connection:
            yield connection

    async def close(self) -> None:
        """Close the pools, waiting briefly for running statements."""
        near = None if self.near is self else self.near.writer
        spares = self.spares.reader, self.spares.look_up
        for each in (near, self.writer, self.reader, *spares, *self.asides):
            if each is not None:
                await pool.close(each, CONNECT_SECONDS)


@asynccontextmanager
async def _taken(held_by: asyncpg.Pool, seconds: float) -> AsyncIterator[Connection]:
    held = await pool.acquire(held_by, seconds)
    try:
        with translated:
            yield held
    finally:
        await pool.release(held_by, held)


async def _start_reading(connection: Connection, tenant_id: int) -> None:
    # An integer formatted by us, never text from outside: SET takes no parameters.
    await _begin(connection, f"BEGIN READ ONLY; SET LOCAL postdate.tenant_id = {tenant_id:d}")
    await follow_clock(connection)


async def _start_reading_apart(connection: Connection, tenant_id: int) -> None:
    """Begin with two statements, because Citus forwards everything sent along with a SET."""
    await _begin(connection, "BEGIN READ ONLY")
    await _begin(connection, f"SET LOCAL postdate.tenant_id = {tenant_id:d}")
    await follow_clock(connection)


async def _start_looking(connection: Connection) -> None:
    await _begin(connection, "BEGIN READ ONLY")


async def _begin(connection: Connection, statement: str) -> None:
    try:
        # A frozen server keeps its connections open, so the wait must be short.
        await connection.execute(statement, timeout=ANSWER_SECONDS)
    except asyncio.CancelledError:
        await quietly(connection.execute("ROLLBACK"))
        raise


async def lift_time_limits(connection: Connection) -> None:
    """Lift the time limits of the current transaction, because it reads everything."""
    await connection.execute(
        """SET LOCAL statement_timeout = 0;
           SET LOCAL idle_in_transaction_session_timeout = 0;
           SELECT set_config('transaction_timeout', '0', true)
            WHERE current_setting('transaction_timeout', true) IS NOT NULL"""
    )
