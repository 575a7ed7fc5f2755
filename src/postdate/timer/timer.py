"""Timers: the rows that make things happen."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec

from postdate.core.setting import setting
from postdate.database.connection.query import Reader, fetch_all

LANE_PAYMENT: Final = 0
LANE_SCHEDULE: Final = 1
LANE_EVENT: Final = 2
LANE_APPROVAL: Final = 3
"""Payments that wait for a second person."""

LANE_HELD: Final = 4
"""Due payments of a halted tenant."""

LAST_SYSTEM_LANE: Final = 15
"""Lanes of jobs have higher ids."""

LANES_OF_PAYMENTS: Final = (LANE_PAYMENT, LANE_APPROVAL, LANE_HELD)
"""Where the timer of an open payment may lie."""

LONG_AGO: Final = setting.LONG_AGO
"""A low-water mark that hides nothing."""


class Head(msgspec.Struct, frozen=True):
    """The first timer of a bucket's lane, and how far away it is by the database's clock."""

    bucket: int
    lane_id: int
    due_at: datetime
    seconds: float

    @property
    def at(self) -> datetime:
        """Return the database's time at which it was found."""
        return self.due_at - timedelta(seconds=self.seconds)


async def heads(reader: Reader, positions: Sequence[tuple[int, int, datetime]]) -> list[Head]:
    """Find the first timer of each (bucket, lane) from its low-water mark on."""
    buckets, lanes, lows = zip(*positions, strict=True) if positions else ((), (), ())
    return await fetch_all(reader, Head, "timer_heads", buckets, lanes, lows)


async def lanes(reader: Reader, gaps: Sequence[tuple[int, int, int]], max_each: int) -> list[Head]:
    """Find lanes with timers in each gap: in a bucket, after one lane and before another.

    A gap may hold more lanes than were found in it: ask again for what follows the last.
    """
    buckets, afters, befores = zip(*gaps, strict=True) if gaps else ((), (), ())
    return await fetch_all(reader, Head, "timer_lanes", buckets, afters, befores, max_each)
