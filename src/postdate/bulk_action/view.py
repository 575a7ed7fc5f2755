"""Bulk actions: one, a page of them, and the items of one."""

from collections.abc import Sequence
from uuid import UUID

import msgspec

from postdate.bulk_action import store
from postdate.bulk_action.spec import (
    WORDS,
    BulkActionView,
    BulkItemView,
    BulkOperation,
    BulkStatus,
)
from postdate.bulk_action.store import BulkActionRow, key_of
from postdate.core.identity import Identity
from postdate.core.shape import shaped
from postdate.database.connection.database import Database
from postdate.words.error import not_found


class BulkActionViews:
    """Read bulk actions on behalf of a key that may read what they are done to."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find(self, actor: Identity, bulk_action_id: UUID) -> BulkActionView:
        """Show one."""
        reader = self._database.tenant_reader(actor.tenant_id)
        row = await store.find(reader, key_of(actor.tenant_id, bulk_action_id))
        if row is None or not may_see(actor, row.operation, row.created_by):
            raise not_found("bulk action", bulk_action_id)
        return self._show(row)

    async def page(
        self, actor: Identity, before: UUID, limit: int
    ) -> tuple[list[BulkActionView], UUID | None]:
        """List them, the newest first; the id is where the next page begins."""
        reader, asked = self._database.tenant_reader(actor.tenant_id), visible(actor)
        rows = await store.page(reader, actor.tenant_id, before, asked, only_of(actor), limit + 1)
        shown = [self._show(row) for row in rows[:limit]]
        return shown, shown[-1].bulk_action_id if len(rows) > limit else None

    async def list_open(self, actor: Identity) -> list[BulkActionView]:
        """List the bulk actions that have not ended, the newest first."""
        asked = visible(actor)
        if not asked:
            return []
        reader = self._database.tenant_reader(actor.tenant_id)
        rows = await store.list_open(reader, actor.tenant_id, asked, only_of(actor))
        return [self._show(row) for row in rows]

    async def items(
        self, actor: Identity, bulk_action_id: UUID, position: int, limit: int
    ) -> tuple[list[BulkItemView], int | None]:
        """List the items from a position on; the number is where the next page begins."""
        await self.find(actor, bulk_action_id)
        reader = self._database.tenant_reader(actor.tenant_id)
        key = key_of(actor.tenant_id, bulk_action_id)
        rows = await store.items(reader, key, position, limit + 1)
        shown = [
            BulkItemView(item_id=item_id, outcome=outcome, new_job_id=new_job_id)
            for item_id, outcome, new_job_id in rows[:limit]
        ]
        return shown, position + limit if len(rows) > limit else None

    def _show(self, row: BulkActionRow) -> BulkActionView:
        return shaped(
            BulkActionView,
            row,
            status=self._status(row),
            terms=msgspec.json.decode(row.terms),
            skipped=msgspec.json.decode(row.skipped),
        )

    def _status(self, row: BulkActionRow) -> BulkStatus:
        if row.ended_at is not None:
            return BulkStatus.DONE if row.stopped_by is None else BulkStatus.STOPPED
        begun = row.position or row.starts_at.timestamp() * 1000 <= self._database.unix_ms()
        return BulkStatus.RUNNING if begun else BulkStatus.WAITING


def visible(actor: Identity) -> Sequence[BulkOperation]:
    """Return the kinds of bulk actions that a key may see."""
    return [operation for operation in WORDS if _reads(actor, operation)]


def only_of(actor: Identity) -> str | None:
    """Return whose bulk actions alone a key sees: its own, where it is limited to accounts."""
    return None if actor.accounts is None else actor.key_id


def may_see(actor: Identity, operation: BulkOperation, created_by: str) -> bool:
    """Return whether a key may see a bulk action."""
    return _reads(actor, operation) and only_of(actor) in {None, created_by}


def _reads(actor: Identity, operation: BulkOperation) -> bool:
    return actor.allows(WORDS[operation].read) or actor.allows(WORDS[operation].write)
