"""Lanes: their limits, and how many jobs wait in them."""

from collections.abc import Sequence
from typing import Final

from postdate.core.identity import Scope
from postdate.core.limit import LIMITS
from postdate.core.shape import shaped
from postdate.database.connection.database import Database
from postdate.database.connection.query import Reader
from postdate.job.store import job_list
from postdate.job.store.job_list import LaneCount
from postdate.lane.spec import LaneSpec, LaneView
from postdate.lane.store import lane as lane_store
from postdate.lane.store.lane import Lane
from postdate.resource.resource import Resource

MAX_COUNT: Final = 10_000
"""A lane's jobs are counted about so far; then the counts are "at least"."""

MAX_LIST_COUNT: Final = 1000
"""How far the jobs of each lane in a list are counted."""


LANE: Final = Resource(
    noun="lane",
    spec=LaneSpec,
    shows=LaneView,
    key="lane",
    read=Scope.JOBS_READ,
    write=Scope.JOBS_WRITE,
    patchable=("weight", "width", *LIMITS, "per_key"),
    columns=("lane", "paused", "ready", "pending", "running", *LIMITS),
)


class LaneViews:
    """Read lanes on behalf of a tenant."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @LANE.list()
    async def page(
        self, tenant_id: int, after: str, limit: int
    ) -> tuple[list[LaneView], str | None]:
        """List the lanes.

        With what waits, is ready and runs, and the limits that hold.
        """
        reader = self._database.tenant_reader(tenant_id)
        # One more name, to see whether there is a next page.
        lanes = await lane_store.page(reader, tenant_id, after, limit + 1)
        names = list(dict.fromkeys(lane.name for lane in lanes))[:limit]
        shown = await _show(reader, [lane for lane in lanes if lane.name in names], MAX_LIST_COUNT)
        more = any(lane.name not in names for lane in lanes)
        return shown, names[-1] if more else None

    @LANE.get("show_lane")
    async def find(self, tenant_id: int, name: str) -> LaneView | None:
        """Show a lane.

        With what waits, is ready and runs, and the limits that hold.
        """
        reader = self._database.tenant_reader(tenant_id)
        lanes = await lane_store.find(reader, [(tenant_id, name)])
        shown = await _show(reader, lanes, MAX_COUNT)
        return shown[0] if shown else None


async def _show(connection: Reader, lanes: Sequence[Lane], max_count: int) -> list[LaneView]:
    """Combine the rows of a lane, which share everything but their jobs."""
    if not lanes:
        return []
    min_width = min(lane.width for lane in lanes)
    counts = await job_list.count(connection, lanes, max_count // min_width + 1)
    by_name: dict[str, list[Lane]] = {}
    for lane in lanes:
        by_name.setdefault(lane.name, []).append(lane)
    return [
        _joined(
            min(kinds, key=lambda lane: lane.created_at),
            [counts[lane.lane_id] for lane in kinds if lane.lane_id in counts],
        )
        for kinds in by_name.values()
    ]


def new_view(lane: Lane) -> LaneView:
    """Return the view of a lane that has no job yet."""
    return _joined(lane, ())


def _joined(lane: Lane, counts: Sequence[LaneCount]) -> LaneView:
    return shaped(
        LaneView,
        lane,
        lane=lane.name,
        ready=sum(count.ready for count in counts),
        pending=sum(count.pending for count in counts),
        running=sum(count.running for count in counts),
        unknown=sum(count.in_doubt for count in counts),
        counts_capped=any(count.capped for count in counts),
    )
