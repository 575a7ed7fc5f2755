"""Give leases and slots back, even if the database is away for a while."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final
from uuid import UUID

from postdate.core.log import Log
from postdate.database.connection.database import Database
from postdate.database.connection.error import DatabaseError
from postdate.job.store import execution
from postdate.job.store.execution import Recorded
from postdate.lane.store import permit
from postdate.lane.store.permit import claim_holder

log = Log()

PAUSE_SECONDS: Final = 0.1
MAX_PAUSE_SECONDS: Final = 5.0
GIVE_UP_SECONDS: Final = 300.0
"""After this a lease or a slot that could not be given back is left to run out."""


class LeaseReturns:
    """Gives leases and slots back in the background, retrying until it succeeds.

    Doing so twice is harmless: a token and a slot belong to one claim only.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._returning: set[asyncio.Task[None]] = set()

    def give_back(self, verdicts: Sequence[Recorded], scopes: Sequence[str]) -> None:
        """Release leases that no client received, and free their slots."""
        holders = [claim_holder(*held[:2]) for held, _ in verdicts]

        async def once() -> bool:
            # The claim may still commit: jobs that it has locked are tried again.
            written = await execution.record(self._database, verdicts, in_doubt=True)
            return not written.locked and await self._drop(dict.fromkeys(scopes, holders))

        if verdicts:
            self._start(once)

    async def drop(self, holders: Mapping[str, Sequence[UUID]]) -> None:
        """Free the slots of ended leases, by scope: now, or else in the background."""
        done = False
        try:
            done = await _done(lambda: self._drop(holders))
        finally:
            if not done:
                self._start(lambda: self._drop(holders))

    async def _drop(self, holders: Mapping[str, Sequence[UUID]]) -> bool:
        if holders:
            async with self._database.write("lease.release") as connection:
                for scope, group in sorted(holders.items()):
                    await permit.drop(connection, scope, group)
        return True

    def _start(self, once: Callable[[], Awaitable[bool]]) -> None:
        returning = asyncio.create_task(self._until_done(once))
        self._returning.add(returning)
        returning.add_done_callback(self._returning.discard)

    async def _until_done(self, once: Callable[[], Awaitable[bool]]) -> None:
        pause = PAUSE_SECONDS
        try:
            async with asyncio.timeout(GIVE_UP_SECONDS):
                while not await _done(once):
                    await asyncio.sleep(pause)
                    pause = min(pause * 2, MAX_PAUSE_SECONDS)
        except TimeoutError:
            log.warning("lease.not_returned")


async def _done(once: Callable[[], Awaitable[bool]]) -> bool:
    try:
        return await once()
    except DatabaseError as error:
        log.info("lease.return_delayed", error=repr(error))
        return False
