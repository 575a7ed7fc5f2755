"""Change sets: changes that are applied together, and their progress."""

from collections.abc import Collection
from datetime import datetime, timedelta
from uuid import UUID

import msgspec

from postdate.core.ids import bucket_of
from postdate.database.connection.query import Connection, Reader, query


class ChangeSetRow(msgspec.Struct, frozen=True):
    """A change set as it is listed: its changes and the summary of their steps are JSON."""

    change_set_id: UUID
    status: str
    note: str | None
    created_by: str
    created_at: datetime
    changed_at: datetime
    changes: str
    summary: str


class StoredSteps(msgspec.Struct, frozen=True):
    """The progress of a set's changes, as JSON: a summary, and every item."""

    summary: str
    steps: str


async def insert(connection: Connection, tenant_id: int, row: ChangeSetRow, steps: str) -> None:
    """Store a draft, and delete expired change sets."""
    await connection.execute(query("change_set_forget"), tenant_id)
    await connection.execute(
        query("change_set_insert"),
        bucket_of(row.change_set_id),
        tenant_id,
        row.change_set_id,
        row.note,
        row.created_by,
        row.changes,
        row.summary,
        steps,
    )


async def find(
    reader: Reader, tenant_id: int, change_set_id: UUID
) -> tuple[ChangeSetRow, str] | None:
    """Read a change set and its steps."""
    rows = await reader.fetch(
        query("change_set_find"), bucket_of(change_set_id), tenant_id, change_set_id
    )
    if not rows:
        return None
    *listed, steps = rows[0]
    return ChangeSetRow(*listed), steps


async def page(
    reader: Reader, tenant_id: int, before: UUID, limit: int, max_bytes: int
) -> tuple[list[ChangeSetRow], bool]:
    """List a tenant's change sets, the newest first; the second value says whether more follow."""
    found = await reader.fetch(query("change_set_page"), tenant_id, before, limit, max_bytes)
    rows = [ChangeSetRow(*listed) for *listed, _ in found]
    return rows, bool(found) and found[-1]["follows"]


async def hold(
    connection: Connection,
    tenant_id: int,
    change_set_id: UUID,
    expected: Collection[str],
    status: str,
    time: timedelta,
) -> int | None:
    """Claim a change set that has one of the expected statuses; return the token."""
    key = bucket_of(change_set_id), tenant_id, change_set_id
    asked = (*key, list(expected), status, time)
    token: int | None = await connection.fetchval(query("change_set_hold"), *asked)
    return token


async def record(
    connection: Connection,
    tenant_id: int,
    change_set_id: UUID,
    token: int,
    steps: StoredSteps,
    time: timedelta,
) -> bool:
    """Record progress and extend the claim; return False if another node has claimed it."""
    key = bucket_of(change_set_id), tenant_id, change_set_id
    asked = (*key, token, steps.summary, steps.steps, time)
    found = await connection.fetchval(query("change_set_record"), *asked)
    return found is not None


async def let_go(
    connection: Connection, tenant_id: int, change_set_id: UUID, token: int, status: str
) -> bool:
    """Release the claim with a status; return False if another node has claimed it."""
    key = bucket_of(change_set_id), tenant_id, change_set_id
    found = await connection.fetchval(query("change_set_let_go"), *key, token, status)
    return found is not None
