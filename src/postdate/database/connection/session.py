"""A connection of the pool: it notices a lost server and a cancelled statement."""

import asyncio
import socket
from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any, Final

import asyncpg

from postdate.database.connection.clock_belief import ClockBelief
from postdate.database.connection.error import translated, translating
from postdate.words.error import StartError

_KEEPALIVES: Final = (
    ("TCP_KEEPIDLE", 4),
    ("TCP_KEEPINTVL", 3),
    ("TCP_KEEPCNT", 3),
    ("TCP_USER_TIMEOUT", 12_000),
)
"""What the server's `tcp_` settings are to its side of a socket; a system may lack some."""

FIRST_OWN_TYPE: Final = 16384
"""The first id of a type that is not built in; those below are alike on every server."""

SHARDS_VISIBLE: Final = {"citus.override_table_visibility": "off"}
"""Of a session of ours: hiding shards from it costs the driver seconds when it looks types up.

Other clients, pg_dump among them, must not see shards. A server without Citus ignores it.
"""

_built_in: Final[dict[int, list[Any]]] = {}
"""What this process has learned of built-in types."""

_NOT_ASKED: Final = SimpleNamespace(name="no statement was sent")
"""Tells the driver that what it has prepared is still prepared."""


class DatabaseSession(asyncpg.Connection):
    """A connection that remembers being cancelled between preparing a statement and running it.

    The driver ends both with one message. Without it the server would stay in the middle of a
    transaction until its timeout, and ignore what comes next.
    """

    broken_off = False
    _informed_at: float | None = None

    execute = translating(asyncpg.Connection.execute)
    executemany = translating(asyncpg.Connection.executemany)
    # Of the overloads, those without a class of record: no caller asks for another.
    fetch = translating(asyncpg.Connection.fetch)  # type: ignore[assignment]
    fetchrow = translating(asyncpg.Connection.fetchrow)  # type: ignore[assignment]
    fetchval = translating(asyncpg.Connection.fetchval)
    copy_records_to_table = translating(asyncpg.Connection.copy_records_to_table)

    def __init__(self, protocol: Any, transport: asyncio.Transport, *given: Any) -> None:
        """Enable TCP keep-alive, so that a server that no longer answers is noticed."""
        super().__init__(protocol, transport, *given)
        keep_alive(transport)

    async def inform(self, belief: ClockBelief) -> None:
        """Inform the server how far its clock is believed, unless it knows that already."""
        if (message := belief.message(self._informed_at)) is not None:
            await self.execute(message[0])
            self._informed_at = message[1]

    async def _get_statement(self, *given: Any, **named: Any) -> Any:
        try:
            return await super()._get_statement(*given, **named)  # type: ignore[misc]
        except asyncio.CancelledError:
            self.broken_off = True
            raise

    async def _introspect_types(
        self, typeoids: Iterable[int], seconds: float | None
    ) -> tuple[list[Any], Any]:
        """Describe types that the driver does not know, arrays for example.

        Each lookup takes the server milliseconds, and each connection would repeat it for every
        array type.
        """
        ask = super()._introspect_types  # type: ignore[misc]
        types: list[Any] = []
        statement = _NOT_ASKED
        for oid in typeoids:
            if oid not in _built_in:
                found, statement = await ask([oid], seconds)
                if oid >= FIRST_OWN_TYPE:
                    types += found
                    continue
                _built_in[oid] = found
            types += _built_in[oid]
        return types, statement


def keep_alive(transport: asyncio.Transport) -> None:
    """Make the system notice within 15 s that the peer is gone."""
    known = transport.get_extra_info("socket")
    if known.family not in {socket.AF_INET, socket.AF_INET6}:
        return
    # The loops' own sockets only show what is set; a second descriptor of the same socket sets it.
    with socket.fromfd(known.fileno(), known.family, known.type) as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _KEEPALIVES:
            if hasattr(socket, name):
                held.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


async def connect_alone(dsn: str, seconds: float, settings: Mapping[str, str]) -> DatabaseSession:
    """Open a connection that belongs to no pool."""
    with translated:
        return await asyncpg.connect(
            dsn,
            timeout=seconds,
            connection_class=DatabaseSession,
            server_settings={**SHARDS_VISIBLE, **settings},
        )


async def reset(connection: asyncpg.Connection) -> None:
    """Leave a connection as it is when it returns to the pool, unless it was interrupted.

    The driver would reset the session's state, one round trip per transaction. Our sessions have no
    state: settings are made when connecting or are LOCAL, locks end with the transaction, and
    listeners are removed.
    """
    if isinstance(connection, DatabaseSession) and connection.broken_off:
        connection.broken_off = False
        await connection.execute("SELECT 1")


async def refuse_strong_role(
    connection: asyncpg.pool.PoolConnectionProxy | asyncpg.Connection,
) -> None:
    """Refuse to work with a role that could see or change more than it should.

    On a Citus cluster the writer bypasses policies that would admit it everywhere: see
    `shard.admit_nodes`.
    """
    row = await connection.fetchrow(
        """SELECT rolname, rolsuper,
                  rolbypassrls AND (rolname <> 'postdate_writer' OR NOT EXISTS (
                      SELECT FROM pg_extension WHERE extname = 'citus')) AS rolbypassrls,
                  EXISTS (SELECT FROM pg_class WHERE relowner = r.oid) AS owns
             FROM pg_roles r WHERE rolname = current_user"""
    )
    if row is None:
        raise StartError("the database does not know the role that it let in")
    for flag, wrong in (
        ("rolsuper", "is a superuser"),
        ("rolbypassrls", "bypasses row-level security"),
        ("owns", "owns tables"),
    ):
        if row[flag]:
            raise StartError(
                f"the database role {row['rolname']} {wrong}: postdate only runs with a role that "
                "owns nothing and bypasses nothing; run `postdate migrate` to set the roles up"
            )
