"""A database whose transactions break where a test wants it: errors and killed backends."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from postdate.database.connection.database import Connection, Database
from postdate.database.connection.error import (
    CommitUnknownError,
    DatabaseError,
    SerializationFailureError,
    UnavailableError,
)
from postdate.database.connection.pool import Begun

Fault = Callable[[Connection, int], Awaitable[None]]
_CALLS = frozenset({"fetch", "fetchrow", "fetchval", "execute"})


class _Watched:
    """A connection that asks the fault before each statement."""

    def __init__(self, connection: Connection, database: "FaultyDatabase") -> None:
        self._connection = connection
        self._database = database

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._connection, name)
        if name not in _CALLS:
            return found

        async def call(*args: Any, **more: Any) -> Any:
            await self._database.step(self._connection)
            return await found(*args, **more)

        return call


class FaultyDatabase(Database):
    """Counts the statements of writing transactions, the commit among them."""

    def __init__(self, database: Database, fault: Fault) -> None:
        super().__init__(database.writer, database.reader)
        self._fault = fault
        self.count = 0

    async def step(self, connection: Connection) -> None:
        number, self.count = self.count, self.count + 1
        await self._fault(connection, number)

    @asynccontextmanager
    async def write(self, failpoint: str = "") -> AsyncIterator[Connection]:
        async with super().write(failpoint) as connection:
            yield _Watched(connection, self)  # type: ignore[misc] # it looks like one
            await self.step(connection)

    @asynccontextmanager
    async def after(
        self, look: Callable[[Connection], Awaitable[object]], failpoint: str = ""
    ) -> AsyncIterator[Begun]:
        async def watched(connection: Connection) -> object:
            return await look(_Watched(connection, self))  # type: ignore[arg-type] # looks like one

        async with super().after(watched, failpoint) as begun:
            seen = _Watched(begun.connection, self)
            yield begun._replace(connection=seen)  # type: ignore[arg-type] # looks like one


class LossyDatabase(Database):
    """Commits, and loses the answer to every other commit."""

    def __init__(self, database: Database) -> None:
        super().__init__(database.writer, database.reader)
        self.commits = 0

    @asynccontextmanager
    async def write(self, failpoint: str = "") -> AsyncIterator[Connection]:
        async with super().write(failpoint) as connection:
            yield connection
        self.commits += 1
        if self.commits % 2:
            raise CommitUnknownError("the answer was lost")


class Killer:
    """Ends the backend of a connection, as an operator, a crash or a failover would."""

    def __init__(self, connection: asyncpg.Connection) -> None:
        self._connection = connection

    async def kill(self, victim: Connection) -> None:
        """Return when it is gone."""
        gone = await self._connection.fetchval(
            "SELECT pg_terminate_backend($1, 5000)", victim.lent.get_server_pid()
        )
        assert gone


async def nothing(_: Connection, __: int) -> None:
    """No fault."""


ERRORS: tuple[type[DatabaseError], ...] = (
    SerializationFailureError,
    UnavailableError,
)
