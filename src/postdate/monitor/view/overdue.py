"""Watch for stuck work: what is due and no stage has touched, whatever the loops report."""

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from types import MappingProxyType
from typing import Final
from uuid import UUID

import msgspec
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from postdate.core.log import Log
from postdate.core.setting.setting import Settings
from postdate.database.connection import clock
from postdate.database.connection.database import Database
from postdate.lane.store.lane import LaneDirectory
from postdate.lane.store.permit import lane_limits
from postdate.monitor.store import vital
from postdate.monitor.store.vital import Untouched
from postdate.monitor.view.bucket_cycle import LaneBucketCycle, LaneBucketKey, next_share
from postdate.runtime.low_water import LowWaterMark
from postdate.runtime.shared_read import SharedReads
from postdate.schedule.store import schedule as schedule_store

log = Log()

WATCH_SECONDS: Final = 5.0
"""How often a node scans."""

UNTOUCHED_SECONDS: Final = 10.0
"""How long a lane bucket may keep the same first due timer before it is watched, and then again."""

PAUSE_SECONDS: Final = 4 * WATCH_SECONDS
"""After this long without a scan the watch begins again: node or database were away."""

MOVED_SECONDS: Final = 0.5
"""If the oldest unsealed event is younger by this much, events are being sealed."""

OUTLIVED_SECONDS: Final = 30.0
"""How long beyond its job's timeout a lease may be renewed."""

MAX_LEASES: Final = 200
"""How many timers of a lane bucket are searched for leases."""

MAX_SILENT: Final = 100
"""How many schedules that do not fire are named at once."""

STOPPED: Final = "settlement.stopped"
KINDS: Final[Mapping[str, tuple[str, str]]] = {
    "push": ("worker", "due jobs"),
    "payment": ("settlement", "due payments"),
    "schedule": ("worker", "due schedules"),
    "delivery": ("publisher", "subscriptions with unread events"),
    "event": ("publisher", "unsealed events"),
    "lease": ("worker", "leases that outlive their handlers"),
    "silent": ("worker", "schedules that did not fire when their rule says"),
}
"""What may be overdue: the role that is responsible, and the words for it."""

_NOWHERE: Final = (-1, -1)
Reexamine = Callable[[int, int], None]
"""Make a stage forget its low-water mark of a lane bucket and scan it again."""


class Overdue(msgspec.Struct, frozen=True):
    """Overdue work: `seconds` is how long it has been due, or running."""

    kind: str
    lane_bucket: LaneBucketKey
    what: object
    seconds: float
    tenant_id: int | None = None


class HeadWatch:
    """Remember the first due timer of each lane bucket: where a stage works, it changes."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._since: dict[LaneBucketKey, tuple[tuple[UUID, int], float]] = {}

    @property
    def suspects(self) -> list[LaneBucketKey]:
        """Return the lane buckets to scan again next time."""
        return list(self._since)

    def observe(
        self, scanned: Iterable[LaneBucketKey], heads: Iterable[Untouched], now: float
    ) -> list[Untouched]:
        """Record what a scan found; return what has not changed for too long."""
        count_new = {(head.bucket, head.lane_id): head for head in heads}
        stuck = []
        for lane_bucket in scanned:
            head = count_new.get(lane_bucket)
            if head is None:
                self._since.pop(lane_bucket, None)
                continue
            known, since = self._since.get(lane_bucket, (None, now))
            if known != (head.subject, head.token):
                self._since[lane_bucket] = (head.subject, head.token), now
            elif now - since >= self._seconds:
                stuck.append(head)
        return stuck


class OverdueWatch:
    """Find overdue work, make its stage scan the lane bucket again, and count it."""

    def __init__(  # noqa: PLR0913 - every part is injected here, by name
        self,
        registry: CollectorRegistry,
        database: Database,
        lanes: LaneDirectory,
        settings: Settings,
        node_id: UUID,
        *,
        reexamine: Mapping[str, Sequence[Reexamine]] = MappingProxyType({}),
        untouched_seconds: float = UNTOUCHED_SECONDS,
        outlived_seconds: float = OUTLIVED_SECONDS,
    ) -> None:
        self._database = database
        self._scanned_at = time.monotonic()
        self._oldest: tuple[float, float] | None = None
        """When the oldest unsealed event was written, and since when it is the oldest."""
        # Its own instance: the watch must not stop together with what it watches.
        self._reads = SharedReads(database)
        self._lanes = lanes
        self._settings = settings
        self._node_id = node_id
        self._untouched_seconds = untouched_seconds
        self._outlived_seconds = outlived_seconds
        self._lane_buckets = LaneBucketCycle(lanes)
        self._heads = HeadWatch(untouched_seconds)
        self._marks: defaultdict[LaneBucketKey, LowWaterMark] = defaultdict(LowWaterMark)
        self._known: set[object] = set()
        self._leases_next = 0
        self._outlived_at: set[LaneBucketKey] = set()
        self._meter = OverdueMeter(registry)
        self._reexamine = reexamine

    async def run_once(self, _: int = 1) -> int:
        """Scan once; the step of a loop."""
        self._forget_after_pause(time.monotonic())
        await self._lane_buckets.find(self._reads)
        roles, *found = await asyncio.gather(
            vital.nodes(self._reads),
            self._untouched(),
            self._unsealed(),
            self._outlived(),
            self._silent(),
        )
        self._act([each for some in found for each in some if roles.get(KINDS[each.kind][0])])
        self._scanned_at = time.monotonic()
        return 0

    def _forget_after_pause(self, now: float) -> None:
        """Forget earlier findings after a time without scans or writes."""
        if now - self._scanned_at > PAUSE_SECONDS or not self._database.writable:
            self._heads = HeadWatch(self._untouched_seconds)
            self._oldest = None

    def sentences(self, tenant_id: int | None = None) -> list[str]:
        """Describe what the last scan found: of all tenants, or of one."""
        return self._meter.sentences(tenant_id)

    def _act(self, found: Sequence[Overdue]) -> None:
        for each in found:
            if each.what not in self._known:
                self._meter.found(each.kind)
                log.error(
                    "overdue.found",
                    kind=each.kind,
                    bucket=each.lane_bucket[0],
                    lane_id=each.lane_bucket[1],
                    subject=str(each.what),
                    seconds=round(each.seconds, 1),
                )
            for reexamine in self._reexamine.get(each.kind, ()):
                reexamine(*each.lane_bucket)
        self._known = {each.what for each in found}
        self._meter.now(found)

    async def _untouched(self) -> list[Overdue]:
        kinds = {
            lane_bucket: kind
            for lane_bucket, kind in self._lane_buckets.kinds().items()
            if kind in KINDS
        }
        if self._settings.get(STOPPED):
            kinds = {lane_bucket: kind for lane_bucket, kind in kinds.items() if kind != "payment"}
        suspects = [lane_bucket for lane_bucket in self._heads.suspects if lane_bucket in kinds]
        scanned = list(dict.fromkeys([*suspects, *self._lane_buckets.next(list(kinds))]))
        now, floor = time.monotonic(), self._settings.floor
        wanted = [(*each, self._marks[each].current(now, floor)) for each in scanned]
        heads, at = await asyncio.gather(
            vital.overdue_heads(self._reads, wanted, self._untouched_seconds),
            clock.now(self._reads),
        )
        due = at - timedelta(seconds=self._untouched_seconds)
        firsts = {(head.bucket, head.lane_id): head.due_at for head in heads}
        for lane_bucket in scanned:
            self._marks[lane_bucket].learn_empty_below(firsts.get(lane_bucket, due), due)
        for gone in self._marks.keys() - kinds.keys():
            del self._marks[gone]
        stuck = self._heads.observe(scanned, heads, now)
        waiting = await self._limited(stuck)
        return [
            Overdue(kinds[lane_bucket], lane_bucket, head.subject, head.seconds, head.tenant_id)
            for head in stuck
            if (lane_bucket := (head.bucket, head.lane_id)) not in waiting
        ]

    async def _limited(self, stuck: Sequence[Untouched]) -> set[LaneBucketKey]:
        """Return the lane buckets that wait for their limit while something of them is running."""
        lanes = self._lanes.by_id
        limited = {
            lane_id
            for head in stuck
            if (lane_id := head.lane_id) in lanes and lane_limits(lanes[lane_id], self._settings)
        }
        if not limited:
            return set()
        siblings = {lane_id: await self._siblings(lane_id) for lane_id in limited}
        asked = [
            (bucket, each)
            for each in {each for group in siblings.values() for each in group}
            for bucket in lanes[each].buckets
        ]
        leased = {lane_id for _, lane_id in await vital.leased(self._reads, asked, MAX_LEASES)}
        return {
            (head.bucket, head.lane_id)
            for head in stuck
            if leased.intersection(siblings.get(head.lane_id, ()))
        }

    async def _siblings(self, lane_id: int) -> list[int]:
        """Return the lanes that share a limit: the lane itself, or all of its tenant."""
        lane = self._lanes.by_id[lane_id]
        if lane.limit.limited:
            return [lane_id]
        return [each.lane_id for each in await self._lanes.of_tenant(lane.tenant_id)]

    async def _unsealed(self) -> list[Overdue]:
        """Check the oldest event: after an outage it is old, but moves on when sealed."""
        seconds, now = await vital.event_seconds(self._reads), time.monotonic()
        bound = 2 * self._untouched_seconds
        if seconds < bound:
            self._oldest = None
            return []
        written, since = self._oldest or (now - seconds, now)
        if now - seconds > written + MOVED_SECONDS:
            written, since = now - seconds, now
        self._oldest = written, since
        return [Overdue("event", _NOWHERE, "event", seconds)] if now - since >= bound else []

    async def _silent(self) -> list[Overdue]:
        """Read what the audit of schedules has found."""
        rows = await schedule_store.list_silent(self._reads, MAX_SILENT)
        return [
            Overdue("silent", _NOWHERE, row.schedule_id, row.seconds, row.tenant_id) for row in rows
        ]

    async def _outlived(self) -> list[Overdue]:
        """Check this node's own leases: only this node knows whether a handler still runs."""
        if not self._reexamine.get("lease"):
            return []
        lane_buckets = [
            (bucket, lane.lane_id, self._settings.number("job.timeout_seconds", lane.tenant_id))
            for bucket, lane in self._lane_buckets.live()
            if lane.kind == "push"
        ]
        share, self._leases_next = next_share(lane_buckets, self._leases_next)
        suspects = [
            lane_bucket for lane_bucket in lane_buckets if lane_bucket[:2] in self._outlived_at
        ]
        scanned = list(dict.fromkeys([*suspects, *share]))
        rows = await vital.overlong_leases(
            self._reads, scanned, self._node_id, self._outlived_seconds, MAX_LEASES
        )
        self._outlived_at = {(row.bucket, row.lane_id) for row in rows}
        return [
            Overdue(
                "lease",
                (row.bucket, row.lane_id),
                (row.subject, row.token),
                row.seconds,
                row.tenant_id,
            )
            for row in rows
        ]


class OverdueMeter:
    """What the watch has found, as metrics and in words."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._found: Counter[str] = Counter()
        self._now: dict[str, list[Overdue]] = {}
        registry.register(self)

    def found(self, kind: str) -> None:
        """Count something that was not known yet."""
        self._found[kind] += 1

    def now(self, found: Iterable[Overdue]) -> None:
        """Replace what is overdue at present."""
        kinds: defaultdict[str, list[Overdue]] = defaultdict(list)
        for each in found:
            kinds[each.kind].append(each)
        self._now = dict(kinds)

    def sentences(self, tenant_id: int | None) -> list[str]:
        """Describe what is overdue at present, of all tenants or of one."""
        said = []
        for kind, found in self._now.items():
            late = [e.seconds for e in found if tenant_id is None or e.tenant_id == tenant_id]
            if late:
                what, longest = KINDS[kind][1], max(late)
                said.append(f"{what}: {len(late)} of them were not touched for {longest:.0f} s")
        return said

    def collect(self) -> Iterator[Metric]:
        """Return both families, whatever was found."""
        now = GaugeMetricFamily(
            "postdate_overdue",
            "Lanes and buckets whose due work no node has touched for longer than its limit.",
            labels=["kind"],
        )
        found = CounterMetricFamily(
            "postdate_overdue_found",
            "Overdue items that the watch has pointed nodes at; each one is a fault.",
            labels=["kind"],
        )
        for kind in KINDS:
            now.add_metric([kind], len(self._now.get(kind, ())))
            found.add_metric([kind], self._found[kind])
        yield from (now, found)
