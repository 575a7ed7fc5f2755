"""A login bound to one tenant that does the worst that it may, on connections of its own."""

import asyncio
from contextlib import suppress
from typing import Final
from urllib.parse import quote

from postdate.database.connection.error import DatabaseError
from postdate.database.connection.session import DatabaseSession
from postdate_lab.chaos import database as store
from postdate_lab.chaos import side_store

NAME: Final = "guest"
PASSWORD: Final = "a-password-of-the-run"  # noqa: S105 - of a server that ends with the run
SESSIONS: Final = 3
NOTIFICATIONS: Final = 2000


async def make(superuser: DatabaseSession) -> None:
    """Make the login as an administrator would: it must still be bound to its tenant."""
    await side_store.make_guest(superuser, NAME, PASSWORD)


class Guest:
    """The misbehaving login."""

    def __init__(self, host: str, tables: list[str]) -> None:
        self._dsn = (
            f"postgresql://{NAME}:{PASSWORD}@/postdate?host={quote(host, safe='')}&port=5432"
        )
        self._tables = tables

    async def misbehave(self, seconds: float) -> list[str]:
        """Lock, read, notify, compute and hold what it may; return the tables that it reached."""
        sessions = [await store.connect(self._dsn) for _ in range(SESSIONS)]
        try:
            reached = await self._reach(sessions[0])
            async with asyncio.timeout(seconds):
                await asyncio.gather(
                    self._hold(sessions[0]), _notify(sessions[1]), _compute(sessions[2])
                )
        except TimeoutError:
            return reached
        finally:
            for each in sessions:
                each.terminate()
        return reached

    async def _reach(self, session: DatabaseSession) -> list[str]:
        """Try to lock and to read every table; nothing but refusals is right."""
        reached = []
        for table in self._tables:
            for action in side_store.TABLE_ACTIONS:
                with suppress(DatabaseError):
                    await side_store.try_table(session, action, table)
                    reached.append(table)
        return reached

    async def _hold(self, session: DatabaseSession) -> None:
        """Accept a job in a transaction, and leave it open."""
        async with session.transaction():
            with suppress(DatabaseError):
                await side_store.enqueue(session)
            await asyncio.Event().wait()


async def _notify(session: DatabaseSession) -> None:
    while True:
        with suppress(DatabaseError):
            await side_store.notify(session, NOTIFICATIONS)
        await asyncio.sleep(0)


async def _compute(session: DatabaseSession) -> None:
    while True:
        with suppress(DatabaseError):
            await side_store.compute(session)
        await asyncio.sleep(0)
