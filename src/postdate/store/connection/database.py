"""Connections: a pool that writes for every tenant, a pool that reads for one."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, TypeVar

import asyncpg

from postdate.model import origin
from postdate.model.tenant import test_clock
from postdate.store.connection import freshness, pool
from postdate.store.connection.clock import node_clock
from postdate.store.connection.error import translated
from postdate.store.connection.pool import Sources, Spares
from postdate.store.connection.query import Reader
from postdate.store.connection.shard_map import ShardMap
from postdate.store.connection.tenant_reader import TenantReader
from postdate.store.connection.writer import ACQUIRE_SECONDS, Writer, follow_clock, quietly

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
        self, writer: asyncpg.Pool, reader: asyncpg.Pool, spares: Spares | None = None
    ) -> None:
        super().__init__(writer)
        self.near: Writer = self
        """For what is done all the time: the database node that holds most of what is touched.

        It is this one where there is no other; see `shard.attachment`.
        """
        self.shard_map = ShardMap()
        self.reader = reader
        self.spares = spares or Spares()
        self.bounds_transactions = False
        """Whether the server ends each of our transactions after TRANSACTION_SECONDS."""
        self.replicated = False
        """Whether commits wait for a standby, as this node last learned."""
        self.sharded = False
        """Whether the tables are distributed over the nodes of a Citus cluster."""
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
        asked_at = time.monotonic()
        [seconds] = await reader.fetchrow("SELECT extract(epoch FROM clock())::float8")
        node_clock.learn(seconds, asked_at)

    def unix_ms(self) -> int:
        """Return the database's time as this node knows it: for ids, never for a decision."""
        return node_clock.unix_ms()

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
        await super()._follow(connection)
        if self.spares.replica_reads:
            self._committed = max(self._committed, await freshness.committed(connection))

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
                await quietly(connection.execute("COMMIT"))

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
                await quietly(connection.execute("COMMIT"))

    async def close(self) -> None:
        """Close the pools, waiting a moment for what is under way."""
        near = None if self.near is self else self.near.writer
        for each in (near, self.writer, self.reader, self.spares.reader, self.spares.look_up):
            if each is not None:
                await pool.close(each, CONNECT_SECONDS)


async def _start_reading(connection: Connection, tenant_id: int) -> None:
    # An integer formatted by us, never text from outside: SET takes no parameters.
    await _begin(connection, f"BEGIN READ ONLY; SET LOCAL postdate.tenant_id = {tenant_id:d}")
    await follow_clock(connection)


async def _start_reading_apart(connection: Connection, tenant_id: int) -> None:
    """Begin with two statements: Citus tells the other nodes all that came along with a SET."""
    await _begin(connection, "BEGIN READ ONLY")
    await _begin(connection, f"SET LOCAL postdate.tenant_id = {tenant_id:d}")
    await follow_clock(connection)


async def _start_looking(connection: Connection) -> None:
    await _begin(connection, "BEGIN READ ONLY")


async def _begin(connection: Connection, statement: str) -> None:
    try:
        # A server that is frozen holds its connections open: whoever waits must not wait long.
        await connection.execute(statement, timeout=ANSWER_SECONDS)
    except asyncio.CancelledError:
        await quietly(connection.execute("ROLLBACK"))
        raise


async def lift_time_limits(connection: Connection) -> None:
    """Let the transaction under way take as long as it takes: it reads everything there is."""
    await connection.execute(
        """SET LOCAL statement_timeout = 0;
           SET LOCAL idle_in_transaction_session_timeout = 0;
           SELECT set_config('transaction_timeout', '0', true)
            WHERE current_setting('transaction_timeout', true) IS NOT NULL"""
    )
