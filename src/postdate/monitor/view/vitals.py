"""The state of the database as metrics: read periodically, scraped from memory."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, cast

from prometheus_client import CollectorRegistry, Metric

from postdate.core.log import Log
from postdate.database import partition
from postdate.database.connection.database import Connection, Database
from postdate.database.connection.error import DatabaseError
from postdate.database.connection.query import Reader
from postdate.lane.store import lane
from postdate.lane.store.lane import LaneDirectory
from postdate.monitor.spec.tenant_share import TenantShares
from postdate.monitor.store import vital
from postdate.monitor.store.vital import BucketBacklog
from postdate.monitor.view.bucket_cycle import LaneBucketCycle, LaneBucketKey
from postdate.monitor.view.pending import PendingWatch
from postdate.monitor.view.tenant_metrics import render_tenants
from postdate.monitor.view.vital_metrics import Parts, render
from postdate.runtime.low_water import LowWaterMark
from postdate.runtime.shared_read import SharedReads

log = Log()

POLL_SECONDS: Final = 15.0
"""How often the database is asked; a scrape only shows what is known."""

COUNT_BUDGET: Final = 50_000
"""The most rows that one scan counts: a single busy lane is exact up to 6,250 a bucket."""

SLACK: Final = timedelta(seconds=120)
"""How far back each scan goes, for rows that commit late."""

FULL_SECONDS: Final = 450.0
"""How often everything is scanned, for rows that commit later still."""

VitalRead = Callable[[Reader], Awaitable[Any]]


class BacklogWatch:
    """Work that is due and not done in each lane bucket; each scan updates a share of them."""

    def __init__(self, lanes: LaneDirectory) -> None:
        self._lane_buckets = LaneBucketCycle(lanes)
        self._marks: defaultdict[LaneBucketKey, LowWaterMark] = defaultdict(
            lambda: LowWaterMark(SLACK, FULL_SECONDS)
        )
        self._found: dict[LaneBucketKey, tuple[str, BucketBacklog]] = {}

    async def scan(self, connection: Connection, at: datetime) -> list[tuple[str, BucketBacklog]]:
        """Scan the next share of lane buckets now; return the counts of all."""
        await self._lane_buckets.find(connection)
        kinds = self._lane_buckets.kinds()
        lane_buckets = self._lane_buckets.next(list(kinds))
        now = time.monotonic()
        wanted = [(*each, self._marks[each].current(now)) for each in lane_buckets]
        limit = max(10, COUNT_BUDGET // max(1, len(lane_buckets)))
        for row in await vital.backlog(connection, wanted, limit):
            lane_bucket = row.bucket, row.lane_id
            self._found[lane_bucket] = kinds[lane_bucket], row
            self._marks[lane_bucket].learn_empty_below(row.oldest or at, at)
        self._found = {
            lane_bucket: row for lane_bucket, row in self._found.items() if lane_bucket in kinds
        }
        for gone in self._marks.keys() - kinds.keys():
            del self._marks[gone]
        return list(self._found.values())


class Vitals:
    """One reading for each node and interval. A part that cannot be read keeps its last one."""

    def __init__(
        self,
        registry: CollectorRegistry,
        database: Database | None,
        lanes: LaneDirectory | None,
        shares: TenantShares | None = None,
        reads: SharedReads | None = None,
    ) -> None:
        self._shares = shares or TenantShares()
        self._database = database
        self._reads = reads
        self._parts: Parts = {}
        self._read_at: dict[str, float] = {}
        self._failed: dict[str, int] = dict.fromkeys(PARTS, 0)
        self._backlog = BacklogWatch(lanes) if lanes else None
        self._pending = PendingWatch(lanes) if lanes else None
        registry.register(self)

    async def run_once(self, _: int = 1) -> int:
        """Read every part once; the step of a loop."""
        if self._database is None or self._backlog is None or self._pending is None:
            return 0
        async with self._database.connection() as connection:
            at = datetime.fromtimestamp(self._database.unix_ms() / 1000, UTC)
            await self._read("backlog", self._backlog.scan(connection, at))
            await self._read("pending", self._pending.scan(connection, at))
        # The others have one read each: run together, they are one statement.
        reads = self._reads or SharedReads(self._database)
        await asyncio.gather(
            self._read("tenant", self._tenants(reads)),
            *(self._read(name, read(reads)) for name, read in READS.items()),
        )
        return 0

    async def _tenants(self, reader: Reader) -> Mapping[int, str]:
        """Choose the tenants that get their own series, and read their names."""
        self._shares.rank()
        return await vital.tenant_names(reader, list(self._shares.named))

    async def _read(self, name: str, reading: Awaitable[Any]) -> None:
        try:
            found = await reading
            self._parts = cast("Parts", {**self._parts, name: found})
            self._read_at[name] = time.monotonic()
        except DatabaseError as error:
            self._failed[name] += 1
            log.warning("vitals.unread", part=name, error=f"{type(error).__name__}: {error}")

    def collect(self) -> Iterator[Metric]:
        """Return what is known, and how old it is."""
        now = time.monotonic()
        ages = {name: now - at for name, at in self._read_at.items()}
        yield from render(self._parts, ages, self._failed)
        yield from render_tenants(self._shares, self._parts.get("tenant", {}))


READS: Final[Mapping[str, VitalRead]] = {
    "event": vital.event_seconds,
    "table": vital.tables,
    "pin": vital.pin,
    "standby": vital.standbys,
    "slot": vital.slots,
    "node": vital.nodes,
    "paused": lane.count_paused,
    "audit": vital.audits,
    "partition": partition.weeks_ahead,
    "stray": partition.list_misplaced,
}
"""The parts of a reading that need nothing but the database."""

PARTS: Final = ("backlog", "pending", "tenant", *READS)
