"""Open the pools of a node: with which role, which limits, and which settings of a session."""

from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any, Final

import asyncpg
import msgspec

from postdate.database import clock_watch
from postdate.database.connection import address
from postdate.database.connection.address import DatabaseNode
from postdate.database.connection.database import (
    ANSWER_SECONDS,
    CONNECT_SECONDS,
    READ_SECONDS,
    READER,
    SCHEMA,
    TRANSACTION_SECONDS,
    WRITER,
    Database,
)
from postdate.database.connection.driver import look_at_types
from postdate.database.connection.error import PermissionDeniedError, translated
from postdate.database.connection.pool import Asides, Spares
from postdate.database.connection.session import (
    SHARDS_VISIBLE,
    DatabaseSession,
    refuse_strong_role,
    reset,
)
from postdate.database.connection.writer import ACQUIRE_SECONDS
from postdate.database.shard import shard
from postdate.words.error import StartError

# A node that is gone without a word (a lost network, a stopped machine) must not keep its locks:
# the server notices within 15 s that the client is gone (TCP), or that nothing is asked (idle). The
# node notices a server that is gone by the same means, on its side of the socket.
_COMMON_SETTINGS: Final = SHARDS_VISIBLE | {
    "search_path": SCHEMA,
    "timezone": "UTC",
    "jit": "off",
    "idle_in_transaction_session_timeout": "10s",
    "tcp_keepalives_idle": "4",
    "tcp_keepalives_interval": "3",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "12s",
    "client_connection_check_interval": "5s",
}
WRITER_SETTINGS: Final = _COMMON_SETTINGS | {
    "role": WRITER,
    "statement_timeout": f"{TRANSACTION_SECONDS}s",
    # Accounts, which strangers may hold, are waited for even less: see `account_add`.
    "lock_timeout": "2s",
    # The hot statements have one right plan each, an index scan. A table that was empty when the
    # plan was made must not leave a sequential scan behind.
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "plan_cache_mode": "force_generic_plan",
}
READER_SETTINGS: Final = _COMMON_SETTINGS | {
    "role": READER,
    "statement_timeout": f"{READ_SECONDS}s",
    "lock_timeout": "1s",
    "default_transaction_read_only": "on",
    # A partition that was empty when a plan was made fills within minutes; until it is analysed, a
    # sequential scan of it would be repeated for each of the 64 buckets of a list.
    "enable_seqscan": "off",
    # A plan for all values is begun only for the weeks that the values admit; a plan for these
    # values is made over every week, each time.
    "plan_cache_mode": "force_generic_plan",
}

_LOOK_UP_SETTINGS: Final = WRITER_SETTINGS | {"default_transaction_read_only": "on"}
MAX_LOOK_UPS: Final = 2
"""The most connections that look keys up: each key is remembered for a moment."""

PROBE_SETTINGS: Final = _COMMON_SETTINGS | {"statement_timeout": "2s", "lock_timeout": "1s"}
"""Without a role: what a session waits for is shown to the login that opened it."""

_TRANSACTION_TIMEOUT_VERSION: Final = (17,)
"""The first server with `transaction_timeout`; an older one bounds each statement, and idling."""


async def _prepare(connection: asyncpg.Connection) -> None:
    if _bounds_transactions(connection):
        await connection.execute(f"SET transaction_timeout = '{TRANSACTION_SECONDS}s'")
    if await shard.is_spread(connection):
        # Citus plans a statement for the values at hand: they decide which shards it asks. A plan
        # for all values it replans each time as well where the shard is its own, and keeps
        # every one of them in memory until the session ends.
        await connection.execute("SET plan_cache_mode = 'force_custom_plan'")
    await connection.set_type_codec(
        "jsonb",
        schema="pg_catalog",
        encoder=lambda value: b"\x01" + msgspec.json.encode(value),
        decoder=lambda data: msgspec.json.decode(data[1:]),
        format="binary",
    )


async def open_pool(
    dsn: str,
    settings: Mapping[str, str],
    size: int,
    name: str = "postdate",
    *,
    seconds: float,
    min_size: int = 1,
    init: Callable[[asyncpg.Connection], Coroutine[Any, Any, None]] | None = None,
) -> asyncpg.Pool:
    """Open a pool of `min_size` to `size` connections with a limit on the time of an answer."""
    look_at_types()
    with translated:
        return await asyncpg.create_pool(
            dsn,
            min_size=min_size,
            max_size=size,
            timeout=CONNECT_SECONDS,
            command_timeout=seconds,
            max_inactive_connection_lifetime=300,
            connection_class=DatabaseSession,
            init=init or (_prepare if min_size else _prepare_checked),
            reset=reset,
            server_settings={**settings, "application_name": name},
        )


async def _prepare_checked(connection: asyncpg.Connection) -> None:
    """Prepare a connection of a pool that was not checked when the process started."""
    await refuse_strong_role(connection)
    await _prepare(connection)


async def connect(
    dsn: str,
    *,
    read_dsn: str | None = None,
    writers: int = 8,
    readers: int = 8,
    name: str = "postdate",
) -> Database:
    """Open the pools, and refuse a role that could see or change more than it should."""
    try:
        writing = TRANSACTION_SECONDS + ANSWER_SECONDS
        writer = await open_pool(
            address.writable(dsn), WRITER_SETTINGS, writers, name, seconds=writing
        )
    except PermissionDeniedError as error:
        raise StartError(
            f"the database login may not act as {WRITER}: run `postdate migrate` as the owner, "
            f"then GRANT {WRITER}, {READER} TO that login ({error})"
        ) from error
    opened = [writer]
    try:
        primary = await _reader(address.primary(dsn), readers, name, min_size=0 if read_dsn else 1)
        opened.append(primary)
        spares = await _open_fallbacks(dsn, read_dsn, primary, readers, name)
        opened += [each for each in (spares.replica, spares.reader, spares.look_up) if each]
        asides = await _open_asides(dsn, name)
        opened += [each for each in asides if each]
        database = Database(writer, spares.replica or primary, spares, asides)
        with translated:
            for each in (writer, *(() if read_dsn else (primary,))):
                async with each.acquire(timeout=ACQUIRE_SECONDS) as connection:
                    await refuse_strong_role(connection)
            await _follow_doubt(database)
            await database.synchronize()
            async with writer.acquire(timeout=ACQUIRE_SECONDS) as connection:
                database.bounds_transactions = _bounds_transactions(connection)
                database.sharded = await shard.is_spread(connection)
            database.shard_map.open_writer = partial(_open_near, dsn, writers, name)
    except BaseException:
        for each in opened:
            each.terminate()
        raise
    return database


async def _follow_doubt(database: Database) -> None:
    """Go by the time that the nodes believe, if they doubt the database's clock."""
    async with database.connection() as connection:
        seen = await clock_watch.read(connection)
    if seen.doubt is not None:
        database.belief.trust(seen.at, seen.at, 0.0)
        database.belief.doubt = seen.doubt


async def _open_near(dsn: str, writers: int, name: str, node: DatabaseNode) -> asyncpg.Pool:
    """Open a pool of the writer at another server of a Citus cluster."""
    seconds = TRANSACTION_SECONDS + ANSWER_SECONDS
    there = address.of_node(dsn, node)
    return await open_pool(there, WRITER_SETTINGS, writers, name, seconds=seconds)


async def _reader(dsn: str, readers: int, name: str, *, min_size: int) -> asyncpg.Pool:
    seconds = READ_SECONDS + ANSWER_SECONDS
    return await open_pool(dsn, READER_SETTINGS, readers, name, seconds=seconds, min_size=min_size)


async def _open_fallbacks(
    dsn: str, read_dsn: str | None, primary: asyncpg.Pool, readers: int, name: str
) -> Spares:
    """Create the fallback pools for a lost primary or replica, without connecting yet."""
    elsewhere = read_dsn or address.any_host(dsn)
    if elsewhere is None:
        return Spares()
    reader = await _reader(elsewhere, readers, name, min_size=0)
    seconds = READ_SECONDS + ANSWER_SECONDS
    look_up = await open_pool(
        elsewhere, _LOOK_UP_SETTINGS, MAX_LOOK_UPS, name, seconds=seconds, min_size=0
    )
    if read_dsn:
        return Spares(primary, look_up, reader)
    return Spares(reader, look_up)


async def _open_asides(dsn: str, name: str) -> Asides:
    """Create the pools beside those of requests, without connecting yet."""
    there, seconds = address.primary(dsn), READ_SECONDS + ANSWER_SECONDS

    async def one(settings: Mapping[str, str], size: int) -> asyncpg.Pool:
        return await open_pool(there, settings, size, name, seconds=seconds, min_size=0)

    return Asides(
        look_up=await one(_LOOK_UP_SETTINGS, MAX_LOOK_UPS),
        beat=await one(WRITER_SETTINGS, 1),
        probe=await open_pool(
            there, PROBE_SETTINGS, 1, name, seconds=seconds, min_size=0, init=_prepare_nothing
        ),
    )


async def _prepare_nothing(_: asyncpg.Connection) -> None:
    """Leave a session as it is: it reads the catalog only."""


def _bounds_transactions(
    connection: asyncpg.pool.PoolConnectionProxy | asyncpg.Connection,
) -> bool:
    return bool(connection.get_server_version() >= _TRANSACTION_TIMEOUT_VERSION)
