"""A connection taken from a pool: every error of the driver is translated, the pool's own too."""

from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any

import asyncpg

from postdate.database.connection.clock_belief import ClockBelief
from postdate.database.connection.error import translated

Transaction = asyncpg.transaction.Transaction


class PooledConnection:
    """A connection while it is taken.

    The driver's stand-in for it refuses every call once the server has closed the connection, and
    does so before the call reaches the connection's own methods, which are translated. Code that
    distinguishes temporary errors within a transaction must not see the untranslated error.
    """

    __slots__ = ("lent",)

    def __init__(self, lent: asyncpg.pool.PoolConnectionProxy) -> None:
        self.lent = lent

    # These are no coroutines: they pass the driver's on, so that they cost one call each.

    def inform(self, belief: ClockBelief) -> Coroutine[Any, Any, None]:
        """Inform the server how far its clock is believed."""
        with translated:
            # The stand-in passes on what it does not know: our session has it.
            return self.lent.inform(belief)  # type: ignore[attr-defined]

    def execute(
        self, query: str, *args: object, timeout: float | None = None
    ) -> Coroutine[Any, Any, str]:
        """Run a statement and return its tag."""
        with translated:
            return self.lent.execute(query, *args, timeout=timeout)

    def executemany(
        self, query: str, args: Iterable[Sequence[object]], *, timeout: float | None = None
    ) -> Coroutine[Any, Any, None]:
        """Run a statement for each sequence of arguments."""
        with translated:
            return self.lent.executemany(query, args, timeout=timeout)

    def fetch(
        self, query: str, *args: object, timeout: float | None = None
    ) -> Coroutine[Any, Any, list[asyncpg.Record]]:
        """Read rows."""
        with translated:
            return self.lent.fetch(query, *args, timeout=timeout)

    def fetchrow(
        self, query: str, *args: object, timeout: float | None = None
    ) -> Coroutine[Any, Any, asyncpg.Record | None]:
        """Read the first row."""
        with translated:
            return self.lent.fetchrow(query, *args, timeout=timeout)

    def fetchval(
        self, query: str, *args: object, timeout: float | None = None
    ) -> Coroutine[Any, Any, Any]:
        """Read the first value of the first row."""
        with translated:
            return self.lent.fetchval(query, *args, timeout=timeout)

    def transaction(self) -> Transaction:
        """Return a transaction, or a savepoint within one, to be entered."""
        with translated:
            return self.lent.transaction()

    def is_in_transaction(self) -> bool:
        """Return whether a transaction is open."""
        with translated:
            return self.lent.is_in_transaction()

    def is_closed(self) -> bool:
        """Return whether the connection is lost: the driver has then given it back already."""
        try:
            return self.lent.is_closed()
        except asyncpg.InterfaceError:
            return True

    def get_server_version(self) -> asyncpg.types.ServerVersion:
        """Return the version of the server."""
        with translated:
            return self.lent.get_server_version()

    def get_server_pid(self) -> int:
        """Return the process of the server that serves this connection."""
        with translated:
            return self.lent.get_server_pid()

    def terminate(self) -> None:
        """Terminate the connection."""
        with translated:
            self.lent.terminate()

    def add_termination_listener(self, listener: Callable[..., None]) -> None:
        """Call a function when the connection ends."""
        with translated:
            self.lent.add_termination_listener(listener)

    def remove_termination_listener(self, listener: Callable[..., None]) -> None:
        """Remove the listener."""
        with translated:
            self.lent.remove_termination_listener(listener)

    async def add_listener(self, channel: str, listener: Callable[..., None]) -> None:
        """Call a function with each notification on a channel."""
        with translated:
            await self.lent.add_listener(channel, listener)

    async def remove_listener(self, channel: str, listener: Callable[..., None]) -> None:
        """Remove the listener."""
        with translated:
            await self.lent.remove_listener(channel, listener)
