"""Heartbeat of a node: a commit of its own, which shows whether commits succeed.

It has a connection to itself and little time, and so it learns within seconds that commits wait for
a standby, that the disk is full or that the server is read-only, whatever the requests do.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from postdate.core.log import Log
from postdate.database import obstacle
from postdate.database.connection.database import Connection, Database
from postdate.database.connection.error import (
    DatabaseError,
    LockNotAvailableError,
    NoAnswerError,
    PermissionDeniedError,
    ReadOnlyError,
    StorageFullError,
    UnavailableError,
)
from postdate.database.obstacle import READ_ONLY, STANDBY

log = Log()

PATIENCE_SECONDS: Final = 1.0
"""After this long without an answer the server is asked what the heartbeat waits for."""

ANSWER_SECONDS: Final = 2.5
"""How long a heartbeat may take; a commit that takes longer counts as one that fails."""


class WriteFault(msgspec.Struct, frozen=True):
    """Why commits fail."""

    name: str
    reason: str


FULL_DISK: Final = WriteFault("disk", "the database's disk is full")


class Heartbeat:
    """Beats, and remembers why commits fail at present."""

    def __init__(self, database: Database, beat: Callable[[Connection], Awaitable[None]]) -> None:
        self._database = database
        self._beat = beat
        self._pid = 0
        self._waits: obstacle.Wait | None = None
        self._fault: WriteFault | None = None

    @property
    def fault(self) -> WriteFault | None:
        """Return why commits fail, or None."""
        return self._fault or (FULL_DISK if self._is_full else None)

    @property
    def _is_full(self) -> bool:
        return self._database.storage_full or self._database.near.storage_full

    async def run_once(self, _: int = 1) -> int:
        """Beat once; the step of a loop."""
        self._waits = None
        writing = asyncio.create_task(self._write())
        try:
            await asyncio.wait([writing], timeout=PATIENCE_SECONDS)
            if not writing.done():
                await self._ask()
            await writing
            await self._look_for_room()
        except DatabaseError as error:
            self._learn(self._fault_of(error))
            raise
        finally:
            writing.cancel()
        self._learn(FULL_DISK if self._is_full else None)
        return 0

    async def _write(self) -> None:
        try:
            await self._write_once()
        except UnavailableError as error:
            if isinstance(error, NoAnswerError):
                raise
            # A restarted server has closed the idle connection; the pool opens another.
            await self._write_once()

    async def _write_once(self) -> None:
        async with self._database.beating(ANSWER_SECONDS) as connection:
            self._pid = connection.get_server_pid()
            await self._beat(connection)

    async def _ask(self) -> None:
        """Ask what the commit waits for: a missing standby may never come."""
        try:
            async with self._database.probing(PATIENCE_SECONDS) as connection:
                self._waits = await obstacle.waits_for(connection, self._pid, PATIENCE_SECONDS)
        except DatabaseError as error:
            log.debug("heartbeat.unasked", error=str(error))
        if self._waits and self._waits.event == "SyncRep":
            self._learn(WriteFault("standby", STANDBY))

    def _fault_of(self, error: DatabaseError) -> WriteFault | None:
        """Return the fault that an error shows; None for one of the table of heartbeats alone."""
        match error:
            case LockNotAvailableError() | PermissionDeniedError():
                fault = None
            case ReadOnlyError():
                fault = WriteFault("database", READ_ONLY)
            case StorageFullError():
                fault = FULL_DISK
            case NoAnswerError():
                fault = self._unanswered()
            case _:
                reason = f"{type(error).__name__} {error}".strip()
                fault = WriteFault("database", f"it does not answer: {reason}")
        return fault

    def _unanswered(self) -> WriteFault | None:
        if self._waits and self._waits.kind == "Lock":
            return None
        if self._waits and self._waits.event == "SyncRep":
            return WriteFault("standby", STANDBY)
        return WriteFault("database", f"a commit gets no answer within {ANSWER_SECONDS:g} s")

    async def _look_for_room(self) -> None:
        """After a write has found the disk full, check whether a table can grow again."""
        if not self._is_full:
            return
        async with self._database.probing(PATIENCE_SECONDS) as connection:
            room = await obstacle.has_room(connection)
        self._database.storage_full = self._database.near.storage_full = not room

    def _learn(self, fault: WriteFault | None) -> None:
        if fault != self._fault:
            if fault:
                log.error("writes.stopped", part=fault.name, reason=fault.reason)
            else:
                log.info("writes.resumed")
        self._fault = fault
        self._database.writable = fault is None
