"""Find what somebody asked for under a key of their own."""

from typing import Final, NamedTuple
from uuid import UUID

from postdate.store.connection.database import Database
from postdate.store.idempotency import idempotency as store
from postdate.store.idempotency.idempotency import key_of

SCOPES: Final = ("payment", "job", "schedule")
"""What a client may ask for under an idempotency key, and later look for."""


class Made(NamedTuple):
    """What came of a request: its kind and its id."""

    kind: str
    subject: UUID


class FindViews:
    """Look idempotency keys up on behalf of a tenant."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def under_key(self, tenant_id: int, key: str) -> list[Made]:
        """Give what was made under a key, one for each kind at most."""
        keys = {key_of(tenant_id, scope, key): scope for scope in SCOPES}
        async with self._database.read(tenant_id) as connection:
            found = await store.find(connection, list(keys))
        return [
            Made(keys[key], kept.subject) for key, kept in found.items() if kept.subject is not None
        ]
