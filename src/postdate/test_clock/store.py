"""Test clocks: the time of tenants in test mode, and the log of what happened as it went on."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from postdate.core.test_clock import AdvanceEntry
from postdate.database.connection.query import Connection, fetch_all, fetch_one, query


class ClockRow(NamedTuple):
    """A test clock as stored; `target` is set while an advance is not finished."""

    at: datetime
    advance: int
    target: datetime | None
    advance_key: str | None
    entries: int
    position: int
    held: bool = False
    """Whether a process advances it; known while its row is locked."""


class DueHead(NamedTuple):
    """The first timer of a lane and bucket that is due."""

    bucket: int
    lane_id: int
    subject: UUID
    due_at: datetime


class PassedTimer(NamedTuple):
    """The timer of a worker's job whose instant was passed; of a lease, its end."""

    due_at: datetime
    subject: UUID
    leased: bool
    lane: str
    lane_id: int


class SubscriptionState(NamedTuple):
    """How far a subscription has come, and what stopped it."""

    subscription_id: UUID
    position: int
    failures: int
    error: str | None
    delivered_at: datetime | None


class NewClockEntry(NamedTuple):
    """Something that happened, about to be entered."""

    at: datetime
    type: str
    subject: UUID
    outcome: dict[str, Any]


async def create(connection: Connection, tenant_id: int, at: datetime | None) -> None:
    """Give a new tenant its clock; without an instant it shows the present."""
    await connection.execute(query("test_clock_create"), tenant_id, at)


async def find(connection: Connection, tenant_id: int) -> ClockRow | None:
    """Read a tenant's clock; None for a live tenant."""
    return await fetch_one(connection, ClockRow, "test_clock_find", tenant_id)


async def lock(connection: Connection, tenant_id: int) -> ClockRow | None:
    """Lock a tenant's clock until the commit; None for a live tenant."""
    return await fetch_one(connection, ClockRow, "test_clock_lock", tenant_id)


async def begin(connection: Connection, tenant_id: int, target: datetime, key: str | None) -> None:
    """Note how far the clock is to be advanced."""
    position = await connection.fetchval(query("seal_position"), tenant_id)
    await connection.execute(query("test_clock_begin"), tenant_id, target, key, position or 0)


async def take(connection: Connection, tenant_id: int, holder: UUID, seconds: float) -> None:
    """Hold the clock for some seconds of the server's."""
    await connection.execute(query("test_clock_take"), tenant_id, holder, seconds)


async def move(
    connection: Connection, tenant_id: int, holder: UUID, at: datetime, seconds: float
) -> datetime | None:
    """Move the clock to an instant and return its time; None if another request has locked it."""
    return await connection.fetchval(query("test_clock_move"), tenant_id, holder, at, seconds)


async def let_go(connection: Connection, tenant_id: int, holder: UUID, *, finished: bool) -> None:
    """Hold the clock no more; what is not finished keeps its target and can be continued."""
    await connection.execute(query("test_clock_let_go"), tenant_id, holder, finished)


async def heads(
    connection: Connection,
    tenant_id: int,
    lanes: Sequence[int],
    until: datetime,
    without: Collection[UUID],
) -> list[DueHead]:
    """Find the first timer of each of a tenant's lanes and buckets that is due by an instant."""
    return await fetch_all(
        connection, DueHead, "test_clock_heads", tenant_id, lanes, until, list(without)
    )


async def payments(
    connection: Connection, lane_id: int, until: datetime, limit: int
) -> list[tuple[int, UUID]]:
    """List the payments due in a lane by an instant, in the order of settling."""
    rows = await connection.fetch(query("test_clock_payments"), lane_id, until, limit)
    return [(row[0], row[1]) for row in rows]


async def list_due_worker_timers(
    connection: Connection,
    tenant_id: int,
    after: tuple[datetime, UUID],
    until: datetime,
    limit: int,
) -> list[PassedTimer]:
    """List the timers of workers' jobs that come due after one of them until an instant."""
    return await fetch_all(
        connection,
        PassedTimer,
        "test_clock_list_due_worker_timers",
        tenant_id,
        after[0],
        until,
        limit,
        after[1],
    )


async def unsealed(connection: Connection, tenant_id: int) -> bool:
    """Return whether events of a tenant wait for their seal."""
    return await connection.fetchval(query("test_clock_unsealed"), tenant_id)


async def subscriptions(connection: Connection, tenant_id: int) -> list[SubscriptionState]:
    """List how far a tenant's subscriptions have come."""
    return await fetch_all(connection, SubscriptionState, "test_clock_subscriptions", tenant_id)


async def enter(
    connection: Connection, tenant_id: int, entries: Sequence[NewClockEntry], position: int = 0
) -> None:
    """Record what happened, in order; `position` is the last event covered."""
    columns = [list(column) for column in zip(*entries, strict=True)] or [[], [], [], []]
    await connection.execute(query("test_clock_enter"), tenant_id, len(entries), *columns, position)


async def entries(
    connection: Connection, tenant_id: int, after: int, advance: int | None, limit: int
) -> list[AdvanceEntry]:
    """List what happened after an entry, of one advance or of all."""
    return await fetch_all(
        connection, AdvanceEntry, "test_clock_entries", tenant_id, after, advance, limit
    )
