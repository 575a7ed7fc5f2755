"""The overview of a tenant: what is late, unknown, failed, and due soon."""

import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec

from postdate.core.ids import floor_id
from postdate.core.shape import shaped
from postdate.core.test_clock import own_lane
from postdate.database.connection.database import Connection, Database
from postdate.destination.spec.trouble import Troubles
from postdate.destination.store import call as call_store
from postdate.destination.view.destination_call import MAX_NODES, FailingTarget, find_failing
from postdate.foresight.view.due import lane_buckets as places_of
from postdate.foresight.view.due_chart import Forecast, forecast
from postdate.foresight.view.load import LoadViews
from postdate.job.store import job_list
from postdate.job.store.job_list import WaitingCount
from postdate.lane.store.lane import Lane, LaneDirectory
from postdate.monitor.store import activity as activity_store
from postdate.monitor.store import overview as store
from postdate.monitor.store import vital as vital_store
from postdate.monitor.store.overview import (
    BrokenOffSet,
    CountedBacklog,
    DisabledDestination,
    FailureGroup,
    LaggingSubscription,
    PausedDestination,
)
from postdate.monitor.store.vital import AuditRun
from postdate.monitor.view.activity import HOUR_SECONDS, MINUTE_SECONDS, ActivityView, activity_view
from postdate.monitor.view.counted import MarkedCount
from postdate.monitor.view.secret_key import MissingKey, find_missing
from postdate.runtime import node as node_store
from postdate.schedule.store import schedule as schedule_store
from postdate.secret import secret as secret_store
from postdate.timer.timer import LANE_APPROVAL, LANE_PAYMENT

MAX_COUNT: Final = 100
"""How far one bucket of a lane is counted: a lane of 8 buckets shows 800 exactly."""

MAX_SECRETS: Final = 1000
"""How many secrets of each kind and key are named: the page of a job asks for its destination."""

MAX_DOUBTED: Final = 100
"""How many targets whose newest answer is a failure are examined."""

MAX_FAILED: Final = 100
"""How many failed jobs and payments of each bucket are counted."""

MAX_APPROVALS: Final = 1000
"""How far payments that wait for approval are counted."""

MAX_LISTED: Final = 10
"""The most disabled destinations and lagging subscriptions that are named."""

MIN_LAG_EVENTS: Final = 1000
"""A subscription that many events behind is a problem even while it succeeds."""

MAX_RUNNING_COUNT: Final = 100
"""How far the running jobs of one bucket of a late lane are counted."""

FAILED_SECONDS: Final = 24 * 3600
REMEMBER_SECONDS: Final = 2.0
"""Many open pages of a tenant cost one set of queries in this time."""

REMEMBER_SLOW_SECONDS: Final = 30.0
"""How long charts and failures are cached: they cost more, and need not be exact to the second."""

MAX_REMEMBERED: Final = 1000


class LaneBacklog(msgspec.Struct, frozen=True, kw_only=True):
    """A lane with its backlog."""

    name: str
    kind: str
    overdue: int
    oldest: datetime | None
    running: int
    """MarkedCount only where something is late."""
    unknown: int
    capped: bool
    """Whether due and unknown are lower bounds."""
    paused_at: datetime | None
    paused_note: str | None
    paused_by: str | None
    max_running: int | None
    rate_per_second: float | None


class SlowOverview(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of the overview that cost more to read."""

    unix_ms: int
    failures: list[FailureGroup]
    """What was accepted in the last 24 hours and failed for good."""
    forecast: Forecast
    nodes: dict[str, int]
    """How many nodes of each role are alive."""
    missing_keys: list[MissingKey]
    failing: list[FailingTarget]
    """Targets that answer every call with a failure."""
    checks: list[AuditRun]
    """When the books of the whole cluster were last checked: for its operators only."""

    @property
    def jobs_failed(self) -> MarkedCount:
        """Count the failed jobs."""
        return _total(group for group in self.failures if group.job)

    @property
    def payments_failed(self) -> MarkedCount:
        """Count the failed payments."""
        return _total(group for group in self.failures if not group.job)


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    """Everything at one instant; numbers are exact up to a limit for each bucket."""

    lanes: list[LaneBacklog]
    payments_overdue: MarkedCount
    payments_oldest: datetime | None
    payments_parked: MarkedCount
    approvals: MarkedCount
    """The payments that wait for a second person."""
    approvals_overdue: int
    approvals_oldest: datetime | None
    broken_off: list[BrokenOffSet]
    disabled: list[DisabledDestination]
    paused: list[PausedDestination]
    waiting: dict[str, WaitingCount]
    """What waits for each target, while one is paused or fails."""
    subscriptions: list[LaggingSubscription]
    schedules_set_aside: MarkedCount
    activity: ActivityView
    slow: SlowOverview

    @property
    def jobs_overdue(self) -> MarkedCount:
        """Count the due jobs of every lane."""
        return sum((MarkedCount(lane.overdue, lane.capped) for lane in self.lanes), MarkedCount(0))

    @property
    def jobs_unknown(self) -> MarkedCount:
        """Count the jobs with unknown outcome."""
        return sum((MarkedCount(lane.unknown, lane.capped) for lane in self.lanes), MarkedCount(0))

    @property
    def due(self) -> MarkedCount:
        """Count what is due and has not begun."""
        return self.jobs_overdue + self.payments_overdue

    @property
    def decisions(self) -> MarkedCount:
        """Count what waits for a person: approvals, unknown outcomes and broken payments."""
        return self.approvals + self.jobs_unknown + self.payments_parked


class OverviewViews:
    """Read the overview of one tenant, remembering it for a moment."""

    def __init__(
        self,
        database: Database,
        lanes: LaneDirectory,
        load: LoadViews,
        troubles: Troubles | None = None,
    ) -> None:
        self._database = database
        self._lanes = lanes
        self._load = load
        self._troubles = troubles or Troubles()
        self._known: dict[int, tuple[float, Overview]] = {}
        self._slow: dict[int, tuple[float, SlowOverview]] = {}

    async def get(self, tenant_id: int) -> Overview:
        """Return the overview, at most a moment old."""
        until, known = self._known.get(tenant_id, (0.0, None))
        if known is not None and time.monotonic() < until:
            return known
        fresh = await self._read(tenant_id)
        if len(self._known) >= MAX_REMEMBERED:
            self._known.clear()
        self._known[tenant_id] = (time.monotonic() + REMEMBER_SECONDS, fresh)
        return fresh

    def forget(self, tenant_id: int) -> None:
        """Drop the cached overview, because something was changed."""
        self._known.pop(tenant_id, None)

    async def _read(self, tenant_id: int) -> Overview:
        lanes = await self._lanes.of_tenant(tenant_id)
        lanes.sort(key=lambda lane: (lane.name, lane.kind))
        lane_buckets = places_of(lanes, own_lane(LANE_PAYMENT), own_lane(LANE_APPROVAL))
        async with self._database.read(tenant_id) as connection:
            rows = await store.backlog(connection, tenant_id, lane_buckets, MAX_COUNT)
            seconds = HOUR_SECONDS + MINUTE_SECONDS
            slots = await activity_store.recent(connection, tenant_id, seconds)
            slow = await self._read_slow(connection, tenant_id, lanes)
            set_aside = await schedule_store.count_set_aside(connection, tenant_id, MAX_COUNT)
            broken_off = await store.broken_off(connection, tenant_id, MAX_LISTED)
            disabled = await store.disabled(connection, tenant_id, MAX_LISTED)
            lagging = await store.lagging(connection, tenant_id, MIN_LAG_EVENTS, MAX_LISTED)
            to_approve = await store.count_approvals(connection, tenant_id, MAX_APPROVALS)
            paused = await store.paused(connection, tenant_id, MAX_LISTED)
            waiting = {}
            if paused or slow.failing or self._troubles.of_tenant(tenant_id):
                waiting = await job_list.count_waiting(connection, tenant_id, lanes, MAX_COUNT)
            backlog = {row.lane_id: row for row in rows}
            late = [lane for lane in lanes if backlog[lane.lane_id].overdue]
            counts = await job_list.count(connection, late, MAX_RUNNING_COUNT)
        payments = backlog[own_lane(LANE_PAYMENT)]
        approvals = backlog[own_lane(LANE_APPROVAL)]
        running = {lane_id: count.running for lane_id, count in counts.items()}
        return Overview(
            lanes=[
                _lane(lane, backlog[lane.lane_id], running.get(lane.lane_id, 0)) for lane in lanes
            ],
            payments_overdue=MarkedCount(payments.overdue, payments.capped),
            payments_oldest=payments.oldest,
            payments_parked=MarkedCount(payments.parked, payments.capped),
            approvals=MarkedCount(to_approve, to_approve >= MAX_APPROVALS),
            approvals_overdue=approvals.overdue,
            approvals_oldest=approvals.oldest,
            broken_off=broken_off,
            disabled=disabled,
            paused=paused,
            waiting=waiting,
            subscriptions=lagging,
            schedules_set_aside=MarkedCount(set_aside, set_aside >= MAX_COUNT),
            activity=activity_view(slots, self._database.unix_ms() / 1000),
            slow=slow,
        )

    async def _read_slow(
        self, connection: Connection, tenant_id: int, lanes: Sequence[Lane]
    ) -> SlowOverview:
        until, known = self._slow.get(tenant_id, (0.0, None))
        if known is not None and time.monotonic() < until:
            return known
        unix_ms = self._database.unix_ms()
        since = floor_id(unix_ms - FAILED_SECONDS * 1000)
        failed = await store.failed(connection, tenant_id, since, MAX_FAILED)
        fresh = SlowOverview(
            unix_ms=unix_ms,
            failures=failed,
            forecast=await forecast(self._load, connection, tenant_id, lanes),
            nodes=await vital_store.nodes(connection),
            missing_keys=find_missing(
                await secret_store.list_needed(connection, tenant_id, MAX_SECRETS),
                await node_store.list_keys(connection),
                datetime.fromtimestamp(unix_ms / 1000, UTC),
            ),
            failing=await _failing(connection, tenant_id),
            checks=await vital_store.audits(connection),
        )
        if len(self._slow) >= MAX_REMEMBERED:
            self._slow.clear()
        self._slow[tenant_id] = (time.monotonic() + REMEMBER_SLOW_SECONDS, fresh)
        return fresh


async def _failing(connection: Connection, tenant_id: int) -> list[FailingTarget]:
    doubted = await call_store.doubted(connection, tenant_id, MAX_DOUBTED)
    reports = await call_store.of_targets(connection, tenant_id, list(doubted), MAX_NODES)
    return find_failing(doubted, reports)


def _lane(lane: Lane, backlog: CountedBacklog, running: int) -> LaneBacklog:
    return shaped(
        LaneBacklog,
        lane,
        overdue=backlog.overdue,
        oldest=backlog.oldest,
        running=running,
        unknown=backlog.parked,
        capped=backlog.capped,
    )


def _total(groups: Iterable[FailureGroup]) -> MarkedCount:
    return sum((MarkedCount(group.many, group.capped) for group in groups), MarkedCount(0))
