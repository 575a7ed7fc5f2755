"""A database of which every single call can be broken: begin, each statement, and the commit."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal

from postdate.database.connection.database import Connection, Database
from postdate.database.connection.error import CommitUnknownError, DatabaseError, UnavailableError
from postdate.database.connection.pooled import PooledConnection
from postdate.database.connection.writer import ACQUIRE_SECONDS

Fault = Literal["lost", "error", "cancelled"]
FAULTS: tuple[Fault, ...] = ("lost", "error", "cancelled")
_CALLS = frozenset({"fetch", "fetchrow", "fetchval", "execute"})


def raised(fault: Fault, *, commit: bool) -> BaseException:
    """Give what a caller sees of a fault."""
    match fault:
        case "lost" if commit:
            return CommitUnknownError("the answer was lost")
        case "lost":
            return UnavailableError("the connection was lost")
        case "error":
            return DatabaseError("a surprise")
        case "cancelled":
            return asyncio.CancelledError()


class BreakingDatabase(Database):
    """Numbers its calls; one of them breaks. A commit has two: it never came, or its answer."""

    def __init__(self, database: Database) -> None:
        super().__init__(database.writer, database.reader)
        self.pool = database.writer
        self.calls: list[str] = []
        self.fault: Fault = "lost"
        self.break_at: int | None = None
        self.break_next: str | None = None

    def step(self, name: str, *, commit: bool = False) -> None:
        """Count a call, and break it if it is the one."""
        self.calls.append(name)
        if name == self.break_next:
            self.break_at, self.break_next = len(self.calls) - 1, None
        if len(self.calls) - 1 == self.break_at:
            raise raised(self.fault, commit=commit)

    @asynccontextmanager
    async def connection(self, seconds: float = ACQUIRE_SECONDS) -> AsyncIterator[Connection]:
        """Take a connection that may break before and after each of its calls."""
        self.step("acquire")
        async with self.pool.acquire(timeout=seconds) as lent:
            yield _Watched(PooledConnection(lent), self)  # type: ignore[misc] # it looks like one

    @asynccontextmanager
    async def write(self, failpoint: str = "") -> AsyncIterator[Connection]:
        """Run a transaction that may break before, at and after each of its calls."""
        del failpoint
        self.step("begin")
        async with self.pool.acquire() as lent:
            connection = PooledConnection(lent)
            transaction = connection.transaction()
            await transaction.start()
            try:
                yield _Watched(connection, self)  # type: ignore[misc] # it looks like one
                self.step("commit", commit=True)
            except BaseException:
                await transaction.rollback()
                raise
            await transaction.commit()
            self.step("committed", commit=True)


class _Watched:
    """A connection that may break before each statement, and after it."""

    def __init__(self, connection: Connection, database: BreakingDatabase) -> None:
        self._connection = connection
        self._database = database

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._connection, name)
        if name not in _CALLS:
            return found

        async def call(text: str, *args: Any, **more: Any) -> Any:
            self._database.step(text[:40])
            answer = await found(text, *args, **more)
            self._database.step("answer")
            return answer

        return call
