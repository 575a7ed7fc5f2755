"""What is due within a window, by minute."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime

import asyncpg
import msgspec

from postdate.core.test_clock import lane_purpose
from postdate.database.connection.query import Connection, query
from postdate.monitor.store.overview import Places
from postdate.timer.timer import LANE_PAYMENT


class WalkWindow(msgspec.Struct, frozen=True, kw_only=True):
    """What to walk: the time range, the lane buckets, the limits per bucket and in total."""

    begin: datetime
    until: datetime
    lane_buckets: Places
    lane_bucket_limit: int
    walk_limit: int


class DueMinutes(msgspec.Struct, frozen=True):
    """How much comes due in each minute after the start; -1 stands for what is due before.

    It is that of a lane, or of what a destination or a tenant has in one lane.
    """

    key: int | str | None
    lane_id: int
    minutes: Sequence[int]
    counts: Sequence[int]

    @property
    def payments(self) -> bool:
        """Return whether the lane holds payments."""
        return lane_purpose(self.lane_id) == LANE_PAYMENT


class DueWalk(msgspec.Struct, frozen=True):
    """What one walk has found."""

    found: list[DueMinutes]
    by_lane_bucket: dict[int, int]
    """How much there is at each place, counted from 1."""
    walked: int
    known_until: datetime
    """Up to here every place was walked whole; what lies beyond is not counted."""


async def exceeds(
    connection: Connection, lane_ids: Iterable[int], until: datetime, limit: int
) -> bool:
    """Return whether more than `limit` timers of these lanes become due before an instant."""
    lanes = sorted(set(lane_ids))
    found: bool = await connection.fetchval(query("due_exceeds"), lanes, until, limit)
    return found


async def by_lane(connection: Connection, tenant_id: int, window: WalkWindow) -> DueWalk:
    """Count what comes due for one tenant, by lane, up to a limit per lane bucket."""
    return _walked(await connection.fetch(query("due_by_minute"), tenant_id, *_values(window)))


async def by_destination(connection: Connection, tenant_id: int, window: WalkWindow) -> DueWalk:
    """Count one tenant's jobs that come due, by destination."""
    values = *_values(window), window.walk_limit
    return _walked(await connection.fetch(query("due_by_destination"), tenant_id, *values))


async def by_tenant(connection: Connection, window: WalkWindow) -> DueWalk:
    """Count what comes due for all tenants, for the operator."""
    values = *_values(window), window.walk_limit
    return _walked(await connection.fetch(query("due_by_tenant"), *values))


def _values(window: WalkWindow) -> tuple[object, ...]:
    return *window.lane_buckets, window.begin, window.until, window.lane_bucket_limit


def _walked(rows: Sequence[asyncpg.Record]) -> DueWalk:
    """Add up what a walk has found, by series; the last row says how far it reached."""
    *found, (*_, walked, known_until) = rows
    by_lane_bucket: Counter[int] = Counter()
    series: dict[tuple[int | str | None, int], Counter[int]] = defaultdict(Counter)
    for key, lane_id, place, minutes, *_ in found:
        by_lane_bucket[place] += len(minutes)
        series[key, lane_id].update(minutes)
    counted = [
        DueMinutes(*of, sorted(counts), [counts[minute] for minute in sorted(counts)])
        for of, counts in series.items()
        if counts
    ]
    return DueWalk(counted, by_lane_bucket, walked, known_until)
