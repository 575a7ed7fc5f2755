"""Vital signs of the whole database: bounded reads for metrics, no counts of tables."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, TypeVar
from uuid import UUID

import msgspec

from postdate.database.connection.query import Connection, Reader, fetch_all, fetch_one, query
from postdate.runtime.node import LIVE_SECONDS

HOT_TABLES: Final = (
    "timer",
    "account",
    "schedule",
    "lane",
    "lane_key",
    "permit",
    "permit_scope",
    "outbox",
    "chain",
    "subscription",
    "idempotency",
    "job_unique",
    "activity",
)
"""The tables whose rows are changed or removed, so that dead ones pile up when vacuum cannot."""

READ_SECONDS: Final = 2.0
"""The longest that one of these reads may take; then the last one stands."""

LookFrom = tuple[int, int, datetime]
"""What to scan: a bucket, a lane, and from which instant on."""

Row = TypeVar("Row")


class BucketBacklog(msgspec.Struct, frozen=True):
    """The backlog of one lane bucket; `overdue` is exact up to the limit of the count."""

    bucket: int
    lane_id: int
    overdue: int
    seconds: float | None
    oldest: datetime | None
    parked: int


class PendingCount(msgspec.Struct, frozen=True):
    """How much is pending in one lane bucket, up to the limit, and how much of it is running."""

    bucket: int
    lane_id: int
    many: int
    running: int


class Outlived(msgspec.Struct, frozen=True):
    """A lease that is renewed although its handler must have ended."""

    bucket: int
    lane_id: int
    tenant_id: int
    subject: UUID
    token: int
    seconds: float


class Untouched(Outlived, frozen=True):
    """The first timer of a lane bucket that is overdue."""

    due_at: datetime


class TableRow(msgspec.Struct, frozen=True):
    """Dead and living rows of a table, its size, and how long ago it was vacuumed."""

    name: str
    dead: int
    live: int
    bytes: int
    seconds: float | None


class Pin(msgspec.Struct, frozen=True):
    """The holder of the oldest snapshot: for how long, and how many transactions started since."""

    kind: str
    name: str
    login: str
    seconds: float | None
    xids: int


class Standby(msgspec.Struct, frozen=True):
    """One standby and how far it is behind."""

    name: str
    state: str
    sync_state: str
    bytes: float


class ReplicationSlot(msgspec.Struct, frozen=True):
    """One replication slot and the WAL it keeps."""

    name: str
    active: bool
    bytes: float


class AuditRun(msgspec.Struct, frozen=True):
    """The last whole check of one name."""

    name: str
    seconds: float
    findings: int


async def _read(
    reader: Reader, kind: Callable[..., Row], name: str, *arguments: object
) -> list[Row]:
    return await fetch_all(reader, kind, name, *arguments, timeout=READ_SECONDS)


def _columns(looks: Sequence[tuple[int, int, Any]]) -> Sequence[Sequence[object]]:
    return list(zip(*looks, strict=True)) or ((), (), ())


async def backlog(
    connection: Connection, looks: Sequence[LookFrom], max_count: int
) -> list[BucketBacklog]:
    """Count what is late for each (bucket, lane, low-water mark), up to a limit."""
    return await _read(connection, BucketBacklog, "vital_backlog", *_columns(looks), max_count)


async def pending(
    connection: Connection, looks: Sequence[LookFrom], max_count: int
) -> list[PendingCount]:
    """Count what is pending for each (bucket, lane, start), up to a limit."""
    return await _read(connection, PendingCount, "vital_pending", *_columns(looks), max_count)


async def pending_estimate(connection: Connection, lanes: Sequence[int], since: datetime) -> int:
    """Estimate what is pending in some lanes from the planner's statistics."""
    text = await connection.fetchval(
        query("vital_pending_estimate"), lanes, since, timeout=READ_SECONDS
    )
    return _expected_rows(msgspec.json.decode(text)[0]["Plan"])


def _expected_rows(plan: Mapping[str, Any]) -> int:
    """Return how many rows a plan expects; Citus guesses, but shows the plan of each shard."""
    if "Distributed Query" not in plan:
        return int(plan["Plan Rows"])
    return sum(map(_expected_rows, _plans(plan["Distributed Query"])))


def _plans(explained: Any) -> Iterator[Mapping[str, Any]]:
    """Find the plans of the shards in an EXPLAIN output."""
    if isinstance(explained, dict) and "Plan" in explained:
        yield explained["Plan"]
    elif isinstance(explained, dict | list):
        for part in explained.values() if isinstance(explained, dict) else explained:
            yield from _plans(part)


async def tenant_names(reader: Reader, tenant_ids: Sequence[int]) -> dict[int, str]:
    """Return the names of these tenants."""
    rows = await reader.fetch(query("vital_tenant"), tenant_ids, timeout=READ_SECONDS)
    return dict(map(tuple, rows))


async def overdue_heads(
    reader: Reader, looks: Sequence[LookFrom], seconds: float
) -> list[Untouched]:
    """Return the first timer of each (bucket, lane, low-water mark) that is overdue."""
    return await _read(reader, Untouched, "vital_overdue_heads", *_columns(looks), seconds)


async def leased(
    reader: Reader, lane_buckets: Sequence[tuple[int, int]], max_count: int
) -> set[tuple[int, int]]:
    """Return the lanes and buckets in which something is running."""
    buckets, lanes = zip(*lane_buckets, strict=True) if lane_buckets else ((), ())
    rows = await reader.fetch(
        query("vital_leased"), buckets, lanes, max_count, timeout=READ_SECONDS
    )
    return {(row[0], row[1]) for row in rows}


async def overlong_leases(
    reader: Reader,
    lane_buckets: Sequence[tuple[int, int, float]],
    node_id: UUID,
    seconds: float,
    max_count: int,
) -> list[Outlived]:
    """Return the leases of a node that outlive their jobs' timeouts (bucket, lane, the default)."""
    asked = (*_columns(lane_buckets), node_id, seconds, max_count)
    return await _read(reader, Outlived, "vital_overlong_leases", *asked)


async def due_until(
    connection: Connection, lane_buckets: Sequence[tuple[int, int]], until: datetime, max_count: int
) -> dict[int, int]:
    """Count what was due up to an instant, for each lane."""
    buckets, lanes = zip(*lane_buckets, strict=True)
    rows = await connection.fetch(query("vital_due_until"), buckets, lanes, until, max_count)
    return dict(map(tuple, rows))


async def event_seconds(reader: Reader) -> float:
    """Return how long the oldest unsealed event has waited."""
    return await reader.fetchval(query("vital_event"), timeout=READ_SECONDS)


async def tables(reader: Reader) -> list[TableRow]:
    """Read the statistics of the hot tables."""
    return await _read(reader, TableRow, "vital_table", HOT_TABLES)


async def pin(reader: Reader) -> Pin | None:
    """Return what holds the oldest snapshot, if anything does."""
    return await fetch_one(reader, Pin, "vital_pin", timeout=READ_SECONDS)


async def standbys(reader: Reader) -> list[Standby]:
    """List the standbys."""
    return await _read(reader, Standby, "vital_standby")


async def slots(reader: Reader) -> list[ReplicationSlot]:
    """List the replication slots."""
    return await _read(reader, ReplicationSlot, "vital_slot")


async def nodes(reader: Reader) -> dict[str, int]:
    """Count the live nodes of each role."""
    rows = await reader.fetch(query("vital_node"), float(LIVE_SECONDS), timeout=READ_SECONDS)
    return dict(map(tuple, rows))


async def audits(reader: Reader) -> list[AuditRun]:
    """Read when the books were last checked."""
    return await _read(reader, AuditRun, "vital_audit")


async def audited(connection: Connection, name: str, seconds: float, findings: int) -> None:
    """Record a full check of the books."""
    await connection.execute(query("vital_audited"), name, seconds, findings)
