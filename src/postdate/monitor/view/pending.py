"""How much is pending, by kind and state: counted as far as a budget goes, estimated beyond."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple

import msgspec
from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily

from postdate.core.ids import BUCKETS
from postdate.database.connection.database import Connection
from postdate.lane.store.lane import LaneDirectory
from postdate.monitor.store import vital
from postdate.monitor.store.vital import PendingCount
from postdate.monitor.view.bucket_cycle import (
    SYSTEM_KINDS,
    LaneBucketCycle,
    LaneBucketKey,
    next_share,
)
from postdate.timer.timer import LANE_APPROVAL, LANE_HELD, LONG_AGO

PENDING_BUDGET: Final = 20_000
"""The most rows that one scan counts; beyond, the planner's statistics are used."""

ESTIMATED_LANES: Final = 5_000
"""The most lanes of one estimate."""

STATES: Final = ("pending", "running", "paused", "approval", "halted")


class PendingGroup(NamedTuple):
    """What is counted together; for a paused lane this includes due work."""

    kind: str
    state: str = "pending"

    @property
    def includes_due(self) -> bool:
        """Return whether due work counts as pending, because it is not claimed."""
        return self.state != "pending"


_SYSTEM: Final[Mapping[int, PendingGroup]] = {
    **{lane_id: PendingGroup(kind) for lane_id, kind in SYSTEM_KINDS.items()},
    LANE_APPROVAL: PendingGroup("payment", "approval"),
    LANE_HELD: PendingGroup("payment", "halted"),
}


class Pending(msgspec.Struct, frozen=True):
    """How much there is by kind and state, and for which kinds and states that is an estimate."""

    counts: Mapping[tuple[str, str], int]
    estimated: frozenset[PendingGroup]


class PendingWatch:
    """How much is pending in each lane bucket; each scan updates a share of them."""

    def __init__(self, lanes: LaneDirectory) -> None:
        self._lane_buckets = LaneBucketCycle(lanes)
        self._next = 0
        self._found: dict[LaneBucketKey, tuple[PendingGroup, PendingCount, bool]] = {}

    async def scan(self, connection: Connection, at: datetime) -> Pending:
        """Scan the next share of lane buckets now; return the counts of all."""
        await self._lane_buckets.find(connection)
        groups = self._groups()
        lane_buckets, self._next = next_share(list(groups), self._next)
        wanted = [
            (*lane_bucket, LONG_AGO if groups[lane_bucket].includes_due else at)
            for lane_bucket in lane_buckets
        ]
        share = max(10, PENDING_BUDGET // max(1, len(lane_buckets)))
        rows = await vital.pending(connection, wanted, share)
        self._take(groups, rows, share)
        await self._look_deeper(connection, groups, wanted, rows, share)
        self._found = {
            lane_bucket: row for lane_bucket, row in self._found.items() if lane_bucket in groups
        }
        return await self._together(connection, at)

    async def _look_deeper(
        self,
        connection: Connection,
        groups: Mapping[LaneBucketKey, PendingGroup],
        wanted: Sequence[tuple[int, int, datetime]],
        rows: Sequence[PendingCount],
        share: int,
    ) -> None:
        """Spend the rest of the budget on the lane buckets that hold more than their share."""
        full = {(row.bucket, row.lane_id) for row in rows if row.many >= share}
        left = PENDING_BUDGET - sum(row.many for row in rows)
        if not full or (deeper := left // len(full)) <= share:
            return
        more = [each for each in wanted if each[:2] in full]
        self._take(groups, await vital.pending(connection, more, deeper), deeper)

    def _take(
        self, groups: Mapping[LaneBucketKey, PendingGroup], rows: Sequence[PendingCount], limit: int
    ) -> None:
        for row in rows:
            lane_bucket = row.bucket, row.lane_id
            self._found[lane_bucket] = groups[lane_bucket], row, row.many < limit

    def _groups(self) -> dict[LaneBucketKey, PendingGroup]:
        found = {
            (bucket, lane_id): group
            for lane_id, group in _SYSTEM.items()
            for bucket in range(BUCKETS)
        }
        for bucket, lane in self._lane_buckets.live():
            state = "paused" if lane.paused else "pending"
            found[bucket, lane.lane_id] = PendingGroup(lane.kind, state)
        return found

    async def _together(self, connection: Connection, at: datetime) -> Pending:
        """Add up; where a lane bucket held more than was counted, use the planner's statistics."""
        counts: Counter[tuple[str, str]] = Counter()
        lanes: dict[PendingGroup, set[int]] = {}
        beyond: set[PendingGroup] = set()
        for (_, lane_id), (group, row, whole) in self._found.items():
            running = 0 if group.includes_due else row.running
            counts[group] += row.many - running
            counts[group.kind, "running"] += running
            lanes.setdefault(group, set()).add(lane_id)
            if not whole:
                beyond.add(group)
        for group in beyond:
            some = sorted(lanes[group])[:ESTIMATED_LANES]
            since = LONG_AGO if group.includes_due else at
            estimate = await vital.pending_estimate(connection, some, since)
            counts[group] = max(counts[group], estimate - counts[group.kind, "running"])
        return Pending(counts, frozenset(beyond))


def render_pending(
    pending: Pending | None, ready: Mapping[str, int], parked: Mapping[str, int]
) -> Iterator[Metric]:
    """Make the families; what is due and what waits for a person comes from the backlog."""
    family = GaugeMetricFamily(
        "postdate_pending",
        "Jobs, payments, schedules and deliveries that are not done, by state; see above.",
        labels=["kind", "state"],
    )
    guessed = GaugeMetricFamily(
        "postdate_pending_estimated",
        "1 if the count is an estimate from statistics, because there is too much to count.",
        labels=["kind", "state"],
    )
    if pending is not None:
        for kind, state in _series(pending):
            family.add_metric([kind, state], pending.counts.get((kind, state), 0))
            estimated = PendingGroup(kind, state) in pending.estimated
            guessed.add_metric([kind, state], int(estimated))
        for state, counts in (("ready", ready), ("parked", parked)):
            for kind in ("push", "pull", *SYSTEM_KINDS.values()):
                family.add_metric([kind, state], counts.get(kind, 0))
    yield family
    yield guessed


def _series(pending: Pending) -> Iterator[tuple[str, str]]:
    """Return every kind with its states: first the common ones, then the special ones."""
    for kind in ("push", "pull", *SYSTEM_KINDS.values()):
        for state in STATES:
            if state in {"pending", "running"} or (kind, state) in pending.counts:
                yield kind, state
