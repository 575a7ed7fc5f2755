"""What only `postdate bench` asks."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Literal, NamedTuple
from uuid import UUID

import asyncpg

from postdate.database.connection.database import Connection
from postdate.database.connection.query import query
from postdate.timer.timer import LANE_SCHEDULE

_query = partial(query, package="postdate_lab.bench")


class JobLateness(NamedTuple):
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
    await connection.execute(_query("bench_delete"), bucket, subjects, tokens)


async def fill(
    connection: asyncpg.Connection,
    tenant_id: int,
    lane_id: int,
    buckets: Sequence[int],
    each: int,
    days: int,
) -> None:
    """Put so many timers into each of these buckets of a lane, due within a year from a day on."""
    await connection.execute(
        _query("bench_fill"), buckets, tenant_id, lane_id, each, days, timeout=3600
    )


@asynccontextmanager
async def without_indexes(connection: asyncpg.Connection, table: str) -> AsyncIterator[None]:
    """Drop a table's indexes and make them again at the end: filling it is then much quicker."""
    indexes = await connection.fetch(_query("bench_indexes"), table)
    for index in indexes:
        if index["constraint_name"]:
            await connection.execute(f"ALTER TABLE {table} DROP CONSTRAINT {index['name']}")
        else:
            await connection.execute(f"DROP INDEX {index['name']}")
    try:
        yield
    finally:
        await connection.execute("SET maintenance_work_mem = '2GB'")
        for index in indexes:
            made = index["definition"]
            if index["constraint_name"]:
                made = (
                    f"ALTER TABLE {table} ADD CONSTRAINT {index['constraint_name']} "
                    f"{index['constraint_definition']}"
                )
            await connection.execute(made, timeout=3600)


async def timer_bytes(connection: asyncpg.Connection) -> tuple[int, int]:
    """Return the bytes of the timers: of the table, and of its indexes."""
    [row] = await connection.fetch(_query("bench_timer_bytes"))
    return row[0], row[1]


async def lateness(connection: Connection, tenant_id: int) -> JobLateness:
    """Sum up how late a tenant's jobs began."""
    row = await connection.fetchrow(_query("bench_lateness"), tenant_id)
    if row is None or row["late"] is None:
        return JobLateness(0, 0.0, 0.0, 0.0, 0.0)
    return JobLateness(row["jobs"], *row["late"])


async def wal(connection: Connection) -> int:
    """Return the position in the write-ahead log, in bytes."""
    position: int = await connection.fetchval(_query("bench_wal"))
    return position


async def at_rest(connection: asyncpg.Connection, tables: Sequence[str]) -> int:
    """Return the bytes of tables, partitions and the keys of requests, indexes included."""
    size: int = await connection.fetchval(_query("bench_at_rest"), tables)
    return size


Switch = Literal["autovacuum", "full_page_writes"]


@asynccontextmanager
async def switched_off(connection: asyncpg.Connection, switch: Switch) -> AsyncIterator[None]:
    """Leave out vacuuming by itself, or the images of pages that follow a checkpoint."""
    await connection.execute(f"ALTER SYSTEM SET {switch} = off")
    await connection.execute(_query("bench_reload"))
    await connection.execute("CHECKPOINT")
    try:
        yield
    finally:
        await connection.execute(f"ALTER SYSTEM RESET {switch}")
        await connection.execute(_query("bench_reload"))


async def copy_schedule(
    connection: Connection,
    tenant_id: int,
    schedule_id: UUID,
    buckets: Sequence[int],
    ids: Sequence[UUID],
    hours: int,
) -> None:
    """Copy a schedule; the copies are due so many hours after the top of this one."""
    await connection.execute(
        _query("bench_copy_schedule"),
        tenant_id,
        schedule_id,
        buckets,
        ids,
        hours,
        LANE_SCHEDULE,
        timeout=3600,
    )


async def make_schedules(connection: asyncpg.Connection, tenant_id: int, count: int) -> None:
    """Make schedules of many different rules, without timers: nothing will expand them."""
    await connection.execute(_query("bench_make_schedules"), tenant_id, count)


async def fired(connection: Connection, tenant_id: int) -> tuple[int, int]:
    """Count a tenant's jobs, and the occurrences that became something."""
    row = await connection.fetchrow(_query("bench_fired"), tenant_id)
    return (0, 0) if row is None else (row[0], row[1])
