"""A watch on liveness: what is due and nobody has touched, whatever the loops say of themselves."""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Final
from uuid import UUID

import msgspec
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from postdate.model.log import Log
from postdate.model.setting.setting import Settings
from postdate.runtime.low_water import LowWaterMark
from postdate.store.connection.database import Connection, Database
from postdate.store.operate import vital
from postdate.store.operate.vital import Untouched
from postdate.store.timer.lane import LaneDirectory
from postdate.store.timer.permit import lane_limits
from postdate.views.monitor.bucket_cycle import Place, PlacesInTurn, in_turn

log = Log()

WATCH_SECONDS: Final = 5.0
"""How often a node looks."""

UNTOUCHED_SECONDS: Final = 10.0
"""How long the first due thing of a place may stay what it is; as long again it is observed."""

OUTLIVED_SECONDS: Final = 30.0
"""How long beyond its job's timeout a lease may be renewed."""

LEASES_MOST: Final = 200
"""How many timers of a place are looked at to find leases among them."""

STOPPED: Final = "settlement.stopped"
KINDS: Final[Mapping[str, tuple[str, str]]] = {
    "push": ("worker", "due jobs"),
    "payment": ("settlement", "due payments"),
    "schedule": ("worker", "due schedules"),
    "delivery": ("publisher", "subscriptions with unread events"),
    "event": ("publisher", "unsealed events"),
    "lease": ("worker", "leases that outlive their handlers"),
}
"""What may be overdue: the role that should have touched it, and what it is called."""

_NOWHERE: Final = (-1, -1)
Reexamine = Callable[[int, int], None]
"""Forget what a stage remembers of one bucket's lane, and look there anew."""


class Overdue(msgspec.Struct, frozen=True):
    """What nobody has touched: `seconds` is how long it has been due, or running."""

    kind: str
    place: Place
    what: object
    seconds: float
    tenant_id: int | None = None


class HeadWatch:
    """Remember the first due thing of each place: while somebody works there, it changes."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._since: dict[Place, tuple[tuple[UUID, int], float]] = {}

    @property
    def suspects(self) -> list[Place]:
        """List the places to look at again next time."""
        return list(self._since)

    def observe(
        self, looked: Iterable[Place], heads: Iterable[Untouched], now: float
    ) -> list[Untouched]:
        """Take over what a look has found; give what has not changed for too long."""
        found = {(head.bucket, head.lane_id): head for head in heads}
        stuck = []
        for place in looked:
            head = found.get(place)
            if head is None:
                self._since.pop(place, None)
                continue
            known, since = self._since.get(place, (None, now))
            if known != (head.subject, head.token):
                self._since[place] = (head.subject, head.token), now
            elif now - since >= self._seconds:
                stuck.append(head)
        return stuck


class OverdueWatch:
    """Find what is overdue, have its place looked at anew, and count it."""

    def __init__(
        self,
        registry: CollectorRegistry,
        database: Database,
        lanes: LaneDirectory,
        settings: Settings,
        node_id: UUID,
        *,
        untouched_seconds: float = UNTOUCHED_SECONDS,
        outlived_seconds: float = OUTLIVED_SECONDS,
    ) -> None:
        self._database = database
        self._lanes = lanes
        self._settings = settings
        self._node_id = node_id
        self._untouched_seconds = untouched_seconds
        self._outlived_seconds = outlived_seconds
        self._places = PlacesInTurn(lanes)
        self._heads = HeadWatch(untouched_seconds)
        self._marks: defaultdict[Place, LowWaterMark] = defaultdict(LowWaterMark)
        self._known: set[object] = set()
        self._leases_next = 0
        self._outlived_at: set[Place] = set()
        self._meter = OverdueMeter(registry)
        self.reexamine: defaultdict[str, list[Reexamine]] = defaultdict(list)

    async def run_once(self, _: int = 1) -> int:
        """Look once; the step of a loop."""
        async with self._database.connection() as connection:
            roles = await vital.nodes(connection)
            found = await self._untouched(connection)
            found += await self._unsealed(connection)
            found += await self._outlived(connection)
        self._act([each for each in found if roles.get(KINDS[each.kind][0])])
        return 0

    def on(self, kind: str, *steps: Callable[[], None]) -> None:
        """Have a stage forget what it has seen, and look anew."""

        def reexamine(_bucket: int, _lane_id: int) -> None:
            for step in steps:
                step()

        self.reexamine[kind].append(reexamine)

    def sentences(self, tenant_id: int | None = None) -> list[str]:
        """Say what the last look has found, for people: of all tenants, or of one."""
        return self._meter.sentences(tenant_id)

    def _act(self, found: Sequence[Overdue]) -> None:
        for each in found:
            if each.what not in self._known:
                self._meter.found(each.kind)
                log.error(
                    "overdue.found",
                    kind=each.kind,
                    bucket=each.place[0],
                    lane_id=each.place[1],
                    subject=str(each.what),
                    seconds=round(each.seconds, 1),
                )
            for reexamine in self.reexamine[each.kind]:
                reexamine(*each.place)
        self._known = {each.what for each in found}
        self._meter.now(found)

    async def _untouched(self, connection: Connection) -> list[Overdue]:
        kinds = {place: kind for place, kind in self._places.kinds().items() if kind in KINDS}
        if self._settings.get(STOPPED):
            kinds = {place: kind for place, kind in kinds.items() if kind != "payment"}
        suspects = [place for place in self._heads.suspects if place in kinds]
        looked = list(dict.fromkeys([*suspects, *self._places.turn(list(kinds))]))
        now, floor = time.monotonic(), self._settings.floor
        wanted = [(*place, max(floor, self._marks[place].low(now))) for place in looked]
        heads = await vital.untouched(connection, wanted, self._untouched_seconds)
        due = await vital.now(connection) - timedelta(seconds=self._untouched_seconds)
        firsts = {(head.bucket, head.lane_id): head.due_at for head in heads}
        for place in looked:
            self._marks[place].passed(firsts.get(place, due), due)
        stuck = self._heads.observe(looked, heads, now)
        waiting = await self._limited(connection, stuck)
        return [
            Overdue(kinds[place], place, head.subject, head.seconds, head.tenant_id)
            for head in stuck
            if (place := (head.bucket, head.lane_id)) not in waiting
        ]

    async def _limited(self, connection: Connection, stuck: Sequence[Untouched]) -> set[Place]:
        """Give the places that wait for their limit: as long as something there is running."""
        lanes = self._lanes.by_id
        limited = {
            lane_id
            for head in stuck
            if (lane_id := head.lane_id) in lanes and lane_limits(lanes[lane_id], self._settings)
        }
        if not limited:
            return set()
        siblings = {lane_id: self._siblings(lane_id) for lane_id in limited}
        asked = [
            (bucket, each)
            for each in {each for group in siblings.values() for each in group}
            for bucket in lanes[each].buckets
        ]
        leased = {lane_id for _, lane_id in await vital.leased(connection, asked, LEASES_MOST)}
        return {
            (head.bucket, head.lane_id)
            for head in stuck
            if leased.intersection(siblings.get(head.lane_id, ()))
        }

    def _siblings(self, lane_id: int) -> list[int]:
        """List the lanes that use up the same limit: itself, or all of its tenant."""
        lane = self._lanes.by_id[lane_id]
        if lane.max_running is not None or lane.rate_per_second is not None:
            return [lane_id]
        return [each.lane_id for each in self._lanes.of_tenant(lane.tenant_id)]

    async def _unsealed(self, connection: Connection) -> list[Overdue]:
        seconds = await vital.event_seconds(connection)
        if seconds < 2 * self._untouched_seconds:
            return []
        return [Overdue("event", _NOWHERE, "event", seconds)]

    async def _outlived(self, connection: Connection) -> list[Overdue]:
        """Look at this node's own leases: only it can tell whether somebody is at work."""
        if not self.reexamine["lease"]:
            return []
        places = [
            (bucket, lane.lane_id, self._settings.number("job.timeout_seconds", lane.tenant_id))
            for lane in self._lanes.by_id.values()
            if lane.kind == "push"
            for bucket in lane.buckets
        ]
        turn, self._leases_next = in_turn(places, self._leases_next)
        suspects = [place for place in places if place[:2] in self._outlived_at]
        looked = list(dict.fromkeys([*suspects, *turn]))
        rows = await vital.outlived(
            connection, looked, self._node_id, self._outlived_seconds, LEASES_MOST
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
        """Take over what is overdue at present."""
        kinds: defaultdict[str, list[Overdue]] = defaultdict(list)
        for each in found:
            kinds[each.kind].append(each)
        self._now = dict(kinds)

    def sentences(self, tenant_id: int | None) -> list[str]:
        """Say what is overdue at present, of all tenants or of one."""
        said = []
        for kind, found in self._now.items():
            late = [e.seconds for e in found if tenant_id is None or e.tenant_id == tenant_id]
            if late:
                what, longest = KINDS[kind][1], max(late)
                said.append(f"{what}: nobody has touched {len(late)} of them for {longest:.0f} s")
        return said

    def collect(self) -> Iterator[Metric]:
        """Give both families, whatever was found."""
        now = GaugeMetricFamily(
            "postdate_overdue",
            "Places with something due that nobody has touched for longer than its bound.",
            labels=["kind"],
        )
        found = CounterMetricFamily(
            "postdate_overdue_found",
            "Things found overdue and looked at anew: each is a fault that the watch made good.",
            labels=["kind"],
        )
        for kind in KINDS:
            now.add_metric([kind], len(self._now.get(kind, ())))
            found.add_metric([kind], self._found[kind])
        yield from (now, found)
