"""Due schedules: lock the timers of schedules to expand."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from postdate.core.test_clock import own_lane
from postdate.database.connection.query import Connection, fetch_all
from postdate.timer.timer import LANE_SCHEDULE


class DueTimer(NamedTuple):
    """A due timer that this transaction has locked, and the time at which it was found due."""

    tenant_id: int
    schedule_id: UUID
    due_at: datetime
    at: datetime


class DueFilter(NamedTuple):
    """Which due schedules of a bucket: from an instant, up to a limit, with exclusions."""

    bucket: int
    low: datetime
    limit: int
    without: Sequence[UUID] = ()
    only: Sequence[UUID] | None = None


async def take(connection: Connection, wanted: DueFilter) -> list[DueTimer]:
    """Lock the first due timers of a bucket that no other transaction has locked."""
    bucket, *more = wanted
    return await fetch_all(
        connection, DueTimer, "schedule_due", bucket, own_lane(LANE_SCHEDULE), *more
    )
