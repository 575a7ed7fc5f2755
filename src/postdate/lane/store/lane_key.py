"""Keys of a lane: which of them have due jobs, and what may start of each."""

from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple
from uuid import UUID

from postdate.database.connection.query import Connection, Reader, fetch_all, fetch_one, query
from postdate.runtime.key_rotation import KeyAnswer, KeySeen, KeyState, KeyWalk, TimerPosition

MAX_WALK: Final = 1000
"""The most due timers that one statement walks in search of keys."""

MAX_BEFORE: Final = 1000
"""How far the jobs before another one are counted."""


class KeyWait(NamedTuple):
    """What keeps a due job from starting, and how many of its key are before it, so far."""

    at_limit: bool
    at_rate: bool
    before: int

    @property
    def waiting_for(self) -> Literal["key_max_running", "key_rate_per_second"] | None:
        """Name the limit."""
        if self.at_limit:
            return "key_max_running"
        return "key_rate_per_second" if self.at_rate else None


async def walk(reader: Reader, bucket: int, lane_id: int, after: TimerPosition) -> KeyWalk:
    """Find the keys of the due timers after a position."""
    rows = await reader.fetch(query("lane_key_walk"), bucket, lane_id, *after, MAX_WALK)
    at, *end = rows[0][4:]
    seen = [KeySeen(*row[:4]) for row in rows if row[0] is not None]
    return KeyWalk(seen, at, None if end[0] is None else (end[0], end[1]))


async def choose(
    connection: Connection, bucket: int, lane_id: int, states: Sequence[KeyState]
) -> list[KeyAnswer]:
    """Lock the bucket's keys until the commit, and choose jobs; none if another claim has them."""
    columns = zip(*((s.key_id, s.quota, *s.low, s.low_token, s.lost) for s in states), strict=True)
    return await fetch_all(connection, KeyAnswer, "lane_key_choose", bucket, lane_id, *columns)


async def spend(
    connection: Connection, bucket: int, lane_id: int, counts: Mapping[int, int]
) -> None:
    """Count starts against the rates of keys; below zero they are given back."""
    keys, values = list(counts), list(counts.values())
    await connection.execute(query("lane_key_spend"), bucket, lane_id, keys, values)


async def waits(reader: Reader, tenant_id: int, bucket: int, job_id: UUID) -> KeyWait | None:
    """Return what a waiting job of a lane with limits per key waits for."""
    asked = tenant_id, bucket, job_id, MAX_BEFORE
    return await fetch_one(reader, KeyWait, "lane_key_waits", *asked)


async def sweep(connection: Connection, bucket: int) -> None:
    """Remove the rates of keys that have had time to recover."""
    await connection.execute(query("lane_key_sweep"), bucket)
