"""What only `postdate bench` asks."""

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

import asyncpg

from postdate.store.database import Connection
from postdate.store.query import query


class Lateness(NamedTuple):
    """How late a tenant's jobs began, in milliseconds."""

    jobs: int
    p50: float
    p95: float
    p99: float
    worst: float


async def delete(
    connection: Connection, bucket: int, subjects: Sequence[UUID], tokens: Sequence[int]
) -> None:
    """Delete claimed timers and do nothing else."""
    await connection.execute(query("bench_delete"), bucket, subjects, tokens)


async def fill(
    connection: Connection | asyncpg.Connection,
    tenant_id: int,
    lane_id: int,
    buckets: Sequence[int],
    each: int,
) -> None:
    """Put so many timers of the far future into each of these buckets of a lane."""
    await connection.execute(query("bench_fill"), buckets, tenant_id, lane_id, each, timeout=3600)


async def lateness(connection: Connection, tenant_id: int) -> Lateness:
    """Sum up how late a tenant's jobs began."""
    row = await connection.fetchrow(query("bench_lateness"), tenant_id)
    if row is None or row["late"] is None:
        return Lateness(0, 0.0, 0.0, 0.0, 0.0)
    return Lateness(row["jobs"], *row["late"])


async def wal(connection: Connection) -> int:
    """Give the position in the write-ahead log, in bytes."""
    position: int = await connection.fetchval(query("bench_wal"))
    return position
