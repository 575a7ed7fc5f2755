"""Begin, start and stop bulk actions; nodes work them off."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

import msgspec

from postdate.bulk_action import store
from postdate.bulk_action.spec import WORDS, BulkActionView, BulkOperation
from postdate.bulk_action.store import NewBulkAction, key_of
from postdate.bulk_action.view import BulkActionViews
from postdate.core import origin
from postdate.core.identity import Identity
from postdate.core.ids import new_id
from postdate.database.connection.database import Database
from postdate.words.error import Code, refuse

MAX_ITEMS: Final = 10_000
"""The most items of one bulk action."""

MAX_OPEN: Final = 100
"""The most bulk actions of a tenant that have not ended."""

UNDO_SECONDS: Final = 10.0
"""How long a confirmed bulk action waits, so that it can be stopped without a trace."""


class BulkActions:
    """Begins and stops bulk actions on behalf of a key with the right to do the same singly."""

    def __init__(self, database: Database, views: BulkActionViews) -> None:
        self._database = database
        self._views = views

    async def begin(
        self,
        actor: Identity,
        operation: BulkOperation,
        terms: Mapping[str, Any],
        items: Mapping[UUID, str],
        *,
        per_second: float | None = None,
    ) -> UUID:
        """Store a bulk action; each item comes with the status in which it was shown."""
        _check_write(actor, operation)
        if not 0 < len(items) <= MAX_ITEMS:
            raise refuse(Code.INVALID_FIELD, f"Give 1 to {MAX_ITEMS:,} items.", "items")
        if per_second is not None and not 0 < per_second <= MAX_ITEMS:
            raise refuse(Code.INVALID_FIELD, f"Give 0 to {MAX_ITEMS:,} a second.", "per_second")
        key = key_of(actor.tenant_id, new_id(actor.tenant_id % 64, self._database.unix_ms()))
        stamped = origin.stamp()
        new = NewBulkAction(
            operation,
            _text(terms),
            _text(actor),
            None if stamped is None else _text(stamped),
            actor.key_id,
            per_second,
        )
        async with self._database.write("bulk_action.begin") as connection:
            if await store.count_open(connection, actor.tenant_id) >= MAX_OPEN:
                detail = f"{MAX_OPEN} bulk actions have not ended; stop one, or wait for its end."
                raise refuse(Code.CONFLICT, detail)
            wait = timedelta(seconds=UNDO_SECONDS)
            await store.insert(connection, key, new, items, wait)
        return key.bulk_action_id

    async def start(self, actor: Identity, bulk_action_id: UUID) -> BulkActionView:
        """Let one begin now that still waits; one that has begun goes on."""
        found = await self._views.find(actor, bulk_action_id)
        _check_write(actor, found.operation)
        async with self._database.write("bulk_action.start") as connection:
            await store.start(connection, key_of(actor.tenant_id, bulk_action_id))
        return await self._views.find(actor, bulk_action_id)

    async def stop(self, actor: Identity, bulk_action_id: UUID) -> BulkActionView:
        """End one: once this is answered, no further item is changed."""
        found = await self._views.find(actor, bulk_action_id)
        _check_write(actor, found.operation)
        async with self._database.write("bulk_action.stop") as connection:
            await store.stop(
                connection, key_of(actor.tenant_id, bulk_action_id), actor.key_id, None
            )
        return await self._views.find(actor, bulk_action_id)


def _check_write(actor: Identity, operation: BulkOperation) -> None:
    scope = WORDS[operation].write
    if not actor.allows(scope):
        raise refuse(Code.FORBIDDEN, f"This needs the scope {scope}.")


def _text(value: object) -> str:
    return msgspec.json.encode(value).decode()
