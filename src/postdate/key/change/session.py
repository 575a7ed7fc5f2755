"""Sessions of the console, stored in the database so that any node can serve them."""

import secrets
from typing import Final

from postdate.core.identity import Identity
from postdate.database.connection.database import Database
from postdate.database.connection.error import TransientError
from postdate.key.store import session as session_store
from postdate.key.store.session import NewSession

SESSION_SECONDS: Final = 12 * 3600
"""How long a session lasts after its last page."""

EXTEND_SECONDS: Final = 600
"""How much of that may have passed before the row is written again."""

MAX_SESSIONS: Final = 100
"""The most sessions of one key; beyond it, the one unused for longest ends."""


class ConsoleSessions:
    """Begins, finds and ends sessions."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def begin(self, actor: Identity, key: str) -> str:
        """Start a session for a valid key, and return its id, which is not stored."""
        session_id = secrets.token_urlsafe(32)
        session = NewSession(session_id, actor.tenant_id, actor.key_id, key)
        async with self._database.write("session.begin") as connection:
            await session_store.begin(connection, session, SESSION_SECONDS, MAX_SESSIONS)
        return session_id

    async def find(self, session_id: str) -> str | None:
        """Return the key of a session that has not ended, and extend it."""
        async with self._database.look_up() as connection:
            found = await session_store.find(connection, session_id)
        if found is None:
            return None
        if found.seconds_left < SESSION_SECONDS - EXTEND_SECONDS:
            await self._extend(session_id)
        return found.key

    async def end(self, session_id: str) -> None:
        """End a session."""
        async with self._database.write("session.end") as connection:
            await session_store.end(connection, session_id)

    async def _extend(self, session_id: str) -> None:
        """Extend a session; while the database cannot be written, another page will."""
        try:
            async with self._database.write("session.extend") as connection:
                await session_store.extend(connection, session_id, SESSION_SECONDS)
        except TransientError:
            return
