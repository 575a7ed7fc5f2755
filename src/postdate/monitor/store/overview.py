"""What needs attention now, counted up to a limit."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from postdate.database.connection.query import Connection, fetch_all, query

Places = tuple[Sequence[int], Sequence[int]]
"""Buckets and, beside each, a lane whose timers are searched."""


class CountedBacklog(msgspec.Struct, frozen=True):
    """The backlog of one lane."""

    lane_id: int
    overdue: int
    oldest: datetime | None
    parked: int
    capped: bool


class DisabledDestination(msgspec.Struct, frozen=True):
    """A destination that nothing is sent to."""

    name: str
    disabled_at: datetime
    reason: str | None


class PausedDestination(msgspec.Struct, frozen=True):
    """A destination whose jobs wait."""

    name: str
    paused_at: datetime
    reason: str
    paused_by: str | None


class BrokenOffSet(msgspec.Struct, frozen=True):
    """An interrupted change set on which no process is working."""

    change_set_id: UUID
    status: str
    changed_at: datetime
    changes: int
    made: int


class LaggingSubscription(msgspec.Struct, frozen=True):
    """A subscription that is paused, fails, or is far behind."""

    subscription_id: UUID
    destination: dict[str, Any]
    failures: int
    failing_since: datetime | None
    error: str | None
    paused_at: datetime | None
    paused_note: str | None
    lag_events: int


class FailureGroup(msgspec.Struct, frozen=True):
    """Jobs or payments that failed permanently with one error at one target."""

    job: bool
    code: str
    target: str
    many: int
    hour: int
    """How many of them within the last hour."""
    latest: datetime
    capped: bool
    """Whether there may be more than were counted."""


async def backlog(
    connection: Connection, tenant_id: int, lane_buckets: Places, max_count: int
) -> list[CountedBacklog]:
    """Count what is late or waits for a person, up to a limit in each bucket of a lane."""
    return await fetch_all(
        connection, CountedBacklog, "overview_backlog", tenant_id, *lane_buckets, max_count
    )


async def failed(
    connection: Connection, tenant_id: int, since: UUID, max_count: int
) -> list[FailureGroup]:
    """Group the failures among jobs and payments accepted since an id, the most first."""
    return await fetch_all(connection, FailureGroup, "overview_failed", tenant_id, since, max_count)


async def count_approvals(connection: Connection, tenant_id: int, max_count: int) -> int:
    """Count the payments that wait for approval, up to a limit."""
    found: int = await connection.fetchval(query("overview_approvals"), tenant_id, max_count)
    return found


async def disabled(connection: Connection, tenant_id: int, limit: int) -> list[DisabledDestination]:
    """List disabled destinations, those disabled for longest first."""
    return await fetch_all(connection, DisabledDestination, "overview_disabled", tenant_id, limit)


async def paused(connection: Connection, tenant_id: int, limit: int) -> list[PausedDestination]:
    """List paused destinations, those paused for longest first."""
    return await fetch_all(connection, PausedDestination, "overview_paused", tenant_id, limit)


async def broken_off(connection: Connection, tenant_id: int, limit: int) -> list[BrokenOffSet]:
    """List interrupted change sets, the oldest first."""
    return await fetch_all(connection, BrokenOffSet, "overview_broken_off", tenant_id, limit)


async def lagging(
    connection: Connection, tenant_id: int, min_lag_events: int, limit: int
) -> list[LaggingSubscription]:
    """List subscriptions that are paused, failing, or behind by more than a number of events."""
    return await fetch_all(
        connection, LaggingSubscription, "overview_lagging", tenant_id, min_lag_events, limit
    )
