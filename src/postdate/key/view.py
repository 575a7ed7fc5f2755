"""Read a tenant's keys, without the secrets."""

from typing import Final
from uuid import UUID

from postdate.core.identity import Identity, Scope
from postdate.database.connection.database import Database
from postdate.key.spec import KeySpec, KeyView
from postdate.key.store import key as key_store
from postdate.resource.resource import CountLimit, Resource

KEY: Final = Resource(
    noun="key",
    spec=KeySpec,
    shows=KeyView,
    key="key_id",
    key_type=UUID,
    read=Scope.ADMIN,
    write=Scope.ADMIN,
    read_limited="filtered",
    write_limited="filtered",
    limit=CountLimit("key.max_count", key_store.count),
    columns=("key_id", "hint", "note", "scopes", "expires_at", "revoked_at", "last_used_at"),
)


class KeyViews:
    """List keys."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @KEY.list()
    async def page(
        self, actor: Identity, after: UUID, limit: int
    ) -> tuple[list[KeyView], UUID | None]:
        """List the keys.

        A key is shown by its first characters only. A key limited to accounts sees keys that are
        limited to the same accounts or fewer.
        """
        # A key limited to accounts may get a short page.
        reader = self._database.tenant_reader(actor.tenant_id)
        rows = await key_store.page(reader, actor.tenant_id, after, limit + 1)
        shown = [row for row in rows[:limit] if actor.covers(row.accounts)]
        return shown, rows[limit - 1].key_id if len(rows) > limit else None
