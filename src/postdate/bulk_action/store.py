"""Bulk actions and their items: what was confirmed, and the outcome of each item."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from postdate.bulk_action.spec import BulkOperation
from postdate.core.ids import bucket_of
from postdate.database.connection.query import Connection, Reader, fetch_all, fetch_one, query


class BulkActionKey(NamedTuple):
    """The key of a bulk action."""

    bucket: int
    tenant_id: int
    bulk_action_id: UUID


class BulkActionRow(msgspec.Struct, frozen=True):
    """A bulk action as it is listed; its terms and the counts of what was skipped are JSON."""

    bulk_action_id: UUID
    operation: BulkOperation
    terms: str
    total: int
    position: int
    done: int
    skipped: str
    per_second: float | None
    waiting_for: str | None
    created_by: str
    created_at: datetime
    starts_at: datetime
    changed_at: datetime
    ended_at: datetime | None
    stopped_by: str | None


class NewBulkAction(NamedTuple):
    """A bulk action that was confirmed; what is text is JSON."""

    operation: str
    terms: str
    actor: str
    origin: str | None
    created_by: str
    per_second: float | None


class HeldBulkAction(NamedTuple):
    """A bulk action that this node works on."""

    token: int
    operation: BulkOperation
    terms: str
    actor: str
    origin: str | None
    per_second: float | None
    position: int
    total: int


class BulkItem(NamedTuple):
    """An item whose turn it is, and how it stood when it was shown."""

    position: int
    item_id: UUID
    seen: str


class ItemOutcome(NamedTuple):
    """The outcome of an item, and the job that was made for it."""

    outcome: str
    new_job_id: UUID | None = None


def key_of(tenant_id: int, bulk_action_id: UUID) -> BulkActionKey:
    """Return the key of a bulk action."""
    return BulkActionKey(bucket_of(bulk_action_id), tenant_id, bulk_action_id)


async def insert(
    connection: Connection,
    key: BulkActionKey,
    new: NewBulkAction,
    items: Mapping[UUID, str],
    wait: timedelta,
) -> None:
    """Store a bulk action with its items, and forget what ended long ago."""
    await connection.execute(query("bulk_action_forget"), key.tenant_id)
    await connection.execute(query("bulk_action_insert"), *key, *new, len(items), wait)
    await connection.execute(
        query("bulk_action_item_insert"), *key, list(items), [str(seen) for seen in items.values()]
    )


async def count_open(connection: Connection, tenant_id: int) -> int:
    """Count the tenant's bulk actions that have not ended."""
    return await connection.fetchval(query("bulk_action_count_open"), tenant_id)


async def find(reader: Reader, key: BulkActionKey) -> BulkActionRow | None:
    """Read one."""
    return await fetch_one(reader, BulkActionRow, "bulk_action_find", *key)


async def page(
    reader: Reader,
    tenant_id: int,
    before: UUID,
    operations: Sequence[str],
    created_by: str | None,
    limit: int,
) -> list[BulkActionRow]:
    """List a tenant's bulk actions, the newest first."""
    asked = tenant_id, before, list(operations), created_by, limit
    return await fetch_all(reader, BulkActionRow, "bulk_action_page", *asked)


async def list_open(
    reader: Reader, tenant_id: int, operations: Sequence[str], created_by: str | None
) -> list[BulkActionRow]:
    """List the tenant's bulk actions that have not ended."""
    asked = tenant_id, list(operations), created_by
    return await fetch_all(reader, BulkActionRow, "bulk_action_open", *asked)


async def items(
    reader: Reader, key: BulkActionKey, position: int, limit: int
) -> list[tuple[Any, ...]]:
    """Read items with their outcomes, in their order."""
    return [
        tuple(row)
        for row in await reader.fetch(query("bulk_action_item_page"), *key, position, limit)
    ]


async def start(connection: Connection, key: BulkActionKey) -> bool:
    """Let it begin now; return False for one that has ended."""
    return await connection.fetchval(query("bulk_action_start"), *key) is not None


async def stop(connection: Connection, key: BulkActionKey, actor: str, why: str | None) -> bool:
    """End it; what is done stays done. Return False for one that has ended."""
    return await connection.fetchval(query("bulk_action_stop"), *key, actor, why) is not None


async def list_due(connection: Connection, limit: int) -> list[BulkActionKey]:
    """List those whose turn it is."""
    return await fetch_all(connection, BulkActionKey, "bulk_action_due", limit)


async def hold(
    connection: Connection, key: BulkActionKey, time: timedelta
) -> HeldBulkAction | None:
    """Claim one for this node; None if another has it, or it has ended."""
    return await fetch_one(connection, HeldBulkAction, "bulk_action_hold", *key, time)


async def piece(
    connection: Connection, key: BulkActionKey, position: int, limit: int
) -> list[BulkItem]:
    """Read the next items that have no outcome."""
    return await fetch_all(connection, BulkItem, "bulk_action_item_piece", *key, position, limit)


async def renew(connection: Connection, key: BulkActionKey, token: int, time: timedelta) -> bool:
    """Extend the claim; return False if it was stopped, or another node has claimed it."""
    return await connection.fetchval(query("bulk_action_renew"), *key, token, time) is not None


async def record(
    connection: Connection, key: BulkActionKey, outcomes: Mapping[int, ItemOutcome]
) -> None:
    """Record the outcomes of items by their positions."""
    words = [each.outcome for each in outcomes.values()]
    made = [each.new_job_id for each in outcomes.values()]
    await connection.execute(query("bulk_action_item_record"), *key, list(outcomes), words, made)


async def progress(
    connection: Connection, key: BulkActionKey, token: int, position: int, pause: timedelta
) -> None:
    """Record how far it has come, and let it go until its next turn."""
    await connection.execute(query("bulk_action_progress"), *key, token, position, pause)


async def put_off(
    connection: Connection, key: BulkActionKey, token: int, pause: timedelta, why: str
) -> None:
    """Let it go for a while, and say why."""
    await connection.execute(query("bulk_action_put_off"), *key, token, pause, why)
