"""What is due within a window, by minute."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from postdate.model.tenant.test_clock import lane_purpose
from postdate.store.connection.database import Connection
from postdate.store.connection.query import query
from postdate.store.operate.overview import Places
from postdate.store.timer.timer import LANE_PAYMENT


class WalkWindow(msgspec.Struct, frozen=True, kw_only=True):
    """What is walked: from when until when, where, and how far at each place and in all."""

    begin: datetime
    until: datetime
    lane_buckets: Places
    lane_bucket_limit: int
    walk_limit: int


class DueMinutes(msgspec.Struct, frozen=True):
    """How much becomes due in which minutes after the beginning; -1 stands for what is due before.

    It is that of a lane, of a destination, of a tenant, or of one bucket of a lane (`place`,
    counted from 1).
    """

    key: int | str | None
    payments: bool
    minutes: Sequence[int]
    counts: Sequence[int]


class DueWalk(msgspec.Struct, frozen=True):
    """What one walk has found."""

    found: list[DueMinutes]
    by_lane_bucket: dict[int, int]
    walked: int
    known_until: datetime
    """Up to here every place was walked whole; what lies beyond is not counted."""


async def by_lane(connection: Connection, tenant_id: int, window: WalkWindow) -> DueWalk:
    """Count what becomes due of one tenant, by lane."""
    rows = await connection.fetch(
        query("due_by_minute"),
        tenant_id,
        *window.lane_buckets,
        window.begin,
        window.until,
        window.lane_bucket_limit,
        window.walk_limit,
    )
    return DueWalk(
        [
            DueMinutes(lane, lane_purpose(lane) == LANE_PAYMENT, *rest[:2])
            for lane, _, *rest in rows
            if lane is not None
        ],
        {place: counts[0] for _, place, _, counts, *_ in rows if place is not None},
        *rows[-1][4:],
    )


async def by_destination(connection: Connection, tenant_id: int, window: WalkWindow) -> DueWalk:
    """Count what becomes due of one tenant's jobs, by destination."""
    rows = await connection.fetch(
        query("due_by_destination"),
        tenant_id,
        *window.lane_buckets,
        window.begin,
        window.until,
        window.lane_bucket_limit,
        window.walk_limit,
    )
    found = [DueMinutes(label, False, *rest[:2]) for label, *rest in rows if label is not None]
    return DueWalk(found, {}, *rows[-1][3:])


async def by_tenant(connection: Connection, window: WalkWindow) -> DueWalk:
    """Count what becomes due of all tenants, for the operator."""
    rows = await connection.fetch(
        query("due_by_tenant"),
        *window.lane_buckets,
        window.begin,
        window.until,
        window.lane_bucket_limit,
        window.walk_limit,
    )
    return DueWalk(
        [DueMinutes(tenant, payments, *rest[:2]) for tenant, payments, *rest in rows if rest[0]],
        {},
        *rows[-1][4:],
    )
