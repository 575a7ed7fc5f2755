"""Permits: how limits hold across processes."""

import math
from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from postdate.core.ids import hash_bucket
from postdate.core.limit import Limit
from postdate.core.setting.setting import Settings
from postdate.database.connection.query import Connection, Reader, query
from postdate.lane.store.lane import Lane
from postdate.runtime.node import LIVE_SECONDS


class Grant(NamedTuple):
    """How many may start; with fewer than asked for, when it is worth asking again.

    `delays` has the seconds from now after which each of them may start, where a rate spreads them.
    """

    starts: int
    wait_seconds: float = 0.0
    delays: Sequence[float] = ()


async def acquire(
    connection: Connection,
    limit: Limit,
    holder: UUID,
    held: int,
    wanted: int,
    seconds: float,
    *,
    ahead_seconds: float = 0.0,
) -> Grant:
    """Let a holder of `held` slots start up to `wanted` more, inside the caller's transaction.

    Of a rate it gets the starts of the next `ahead_seconds`, too: others get later ones.
    """
    grant = await lock_room(connection, limit, holder, held, wanted, ahead_seconds)
    if limit.max_running is not None and held + grant.starts > 0:
        await extend(connection, limit.scope, holder, held + grant.starts, seconds)
    await spend(connection, limit, grant.starts)
    return grant


async def lock_room(
    connection: Connection,
    limit: Limit,
    holder: UUID,
    held: int,
    wanted: int,
    ahead_seconds: float = 0.0,
) -> Grant:
    """Lock a scope until the commit and say how much it lets start; nothing is taken yet."""
    tokens = await lock(connection, limit)
    key = (_bucket(limit.scope), limit.scope)
    rate = limit.rate_per_second
    starts = wanted
    if limit.max_running is not None:
        others = await connection.fetchval(query("permit_others"), *key, holder, LIVE_SECONDS)
        starts = min(starts, limit.max_running - others - held)
    if rate is not None:
        starts = min(starts, math.floor(tokens + rate * ahead_seconds))
    starts = max(0, starts)
    wait_seconds = max(0.0, _wait(rate, tokens - starts) - ahead_seconds)
    return Grant(starts, wait_seconds, [_wait(rate, tokens - n) for n in range(starts)])


async def lock(connection: Connection, limit: Limit) -> float:
    """Lock a scope until the commit; return its tokens.

    The holder of the lock knows that a grant in doubt has committed, or never will.
    """
    asked = (_bucket(limit.scope), limit.scope, limit.rate_per_second or 0.0, limit.burst)
    return float(await connection.fetchval(query("permit_lock"), *asked))


async def spend(connection: Connection, limit: Limit, starts: int) -> None:
    """Take a token for each start."""
    if limit.paced and starts:
        key = (_bucket(limit.scope), limit.scope)
        await connection.execute(query("permit_spend"), *key, starts)


async def hold(
    connection: Connection, limit: Limit, holders: Sequence[UUID], seconds: float
) -> None:
    """Grant each holder one slot, under the lock that `room` took."""
    if limit.max_running is not None and holders:
        key = (_bucket(limit.scope), limit.scope)
        await connection.execute(query("permit_hold"), *key, holders, seconds)


def claim_holder(job_id: UUID, token: int) -> UUID:
    """Name the holder of a slot that belongs to one claim of a job, and to no later one."""
    return UUID(int=job_id.int ^ token)


async def drop(connection: Connection, scope: str, holders: Sequence[UUID]) -> None:
    """Release the slots of these holders."""
    await connection.execute(query("permit_drop"), _bucket(scope), scope, holders)


async def refund(connection: Connection, limit: Limit, count: int) -> None:
    """Refund tokens that were not used; the next refill cuts them to the burst."""
    if count:
        await lock(connection, limit)
        await connection.execute(query("permit_spend"), _bucket(limit.scope), limit.scope, -count)


async def extend(
    connection: Connection, scope: str, holder: UUID, slots: int, seconds: float
) -> None:
    """Renew a number of slots for some seconds; without any, delete the row."""
    key = (_bucket(scope), scope)
    if slots:
        await connection.execute(query("permit_put"), *key, holder, slots, seconds)
    else:
        await connection.execute(query("permit_drop"), *key, [holder])


async def sweep(connection: Connection, scope: str) -> None:
    """Remove what dead holders left."""
    await connection.execute(query("permit_sweep"), _bucket(scope), scope, LIVE_SECONDS)


async def waits(reader: Reader, lane: Lane) -> tuple[bool, bool]:
    """Return whether a lane has all its slots taken, and no start of its rate left."""
    limit = lane.limit
    key = _bucket(limit.scope), lane.tenant_id, lane.name
    row = await reader.fetchrow(
        query("permit_waits"), *key, limit.max_running, limit.rate_per_second
    )
    return row[0], row[1]


def lane_limits(lane: Lane, settings: Settings) -> list[Limit]:
    """List what limits the starts of a lane's jobs: its tenant's limits, then its own."""
    limits = []
    max_running = settings.integer("worker.max_running", lane.tenant_id) or None
    rate_per_second = settings.number("worker.rate_per_second", lane.tenant_id) or None
    if max_running is not None or rate_per_second is not None:
        limits.append(Limit(f"tenant:{lane.tenant_id}", max_running, rate_per_second))
    # Most lanes have no limit: no object is made to find that out.
    if lane.max_running is not None or lane.rate_per_second is not None:
        limits.append(lane.limit)
    return limits


def _bucket(scope: str) -> int:
    return hash_bucket(0, scope)


def _wait(rate: float | None, tokens: float) -> float:
    return 0.0 if rate is None or tokens >= 1 else (1 - tokens) / rate
