"""A cheap sign of life: one kept connection, and now and then a new one."""

from typing import Final

import asyncpg

from postdate.database.embedded.credentials import Credentials
from postdate.database.embedded.probe import PATIENCE_SECONDS, UNANSWERED

FRESH_EVERY: Final = 10
"""How often the connection is opened again: only that shows that the postmaster accepts."""


class Pulse:
    """Checks cheaply whether a server answers."""

    def __init__(self, credentials: Credentials) -> None:
        self._dsn = credentials.superuser_dsn()
        self._connection: asyncpg.Connection | None = None
        self._beats = 0

    async def beat(self) -> bool:
        """Return whether the server answered, however long that took."""
        self._beats += 1
        if self._beats % FRESH_EVERY == 0:
            self.close()
        try:
            await self._query()
        except UNANSWERED:
            self.close()
            return False
        return True

    def close(self) -> None:
        """Drop the connection."""
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None

    async def _query(self) -> None:
        if self._connection is None:
            self._connection = await asyncpg.connect(
                self._dsn, timeout=PATIENCE_SECONDS, command_timeout=PATIENCE_SECONDS
            )
        await self._connection.execute("SELECT 1")
