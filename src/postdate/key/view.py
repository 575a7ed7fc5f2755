"""Read a tenant's keys, without the secrets."""

from datetime import datetime
from typing import Annotated
from uuid import UUID

import msgspec
from msgspec import Meta

from postdate.core.identity import Identity, Scope
from postdate.database.connection.database import Database
from postdate.key.store import key as key_store


class KeyView(msgspec.Struct, frozen=True, kw_only=True):
    """A key; `hint` is how it begins, null means no limit."""

    key_id: UUID
    hint: str
    note: str
    scopes: list[Scope]
    accounts: list[str] | None
    max_amount: int | None
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None
    persons: Annotated[
        list[str],
        Meta(description="The people behind the key: none of them can approve its payments."),
    ]


class KeyViews:
    """List keys."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def page(
        self, actor: Identity, after: UUID, limit: int
    ) -> tuple[list[KeyView], UUID | None]:
        """List keys, the oldest first, and return where the next page begins.

        A key limited to accounts sees those limited to its accounts, so its page may be short.
        """
        reader = self._database.tenant_reader(actor.tenant_id)
        rows = await key_store.page(reader, actor.tenant_id, after, limit + 1)
        shown = [
            msgspec.convert(row, KeyView, from_attributes=True)
            for row in rows[:limit]
            if actor.covers(row.accounts)
        ]
        return shown, rows[limit - 1].key_id if len(rows) > limit else None
