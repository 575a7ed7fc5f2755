"""One process of postdate: its database, its settings, its loops."""

import asyncio
import secrets
import socket
import time
from collections import defaultdict
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any, Final
from uuid import UUID

from prometheus_client import CollectorRegistry, ProcessCollector

from postdate.core.log import Log
from postdate.core.setting.setting import Settings as RuntimeSettings
from postdate.database import partition
from postdate.database.connection import durability
from postdate.database.connection.database import Connection, Database
from postdate.database.durability_rule import CommitSafety
from postdate.database.shard import attachment
from postdate.delivery.breaker import Breakers
from postdate.destination.spec.call import CallReports
from postdate.destination.spec.trouble import DestinationKey, Trouble, TroubleReport, Troubles
from postdate.destination.store import trouble
from postdate.halt import store as halt
from postdate.halt.spec import Halts
from postdate.job.spec.outcome import JobHandler
from postdate.job.spec.tally import Tally
from postdate.lane.store.lane import REFRESH_SECONDS as LANE_SECONDS
from postdate.lane.store.lane import LaneDirectory
from postdate.monitor.spec.activity import Lateness
from postdate.monitor.spec.tenant_share import TenantShares
from postdate.monitor.store import activity
from postdate.monitor.view.health import HealthCheck
from postdate.monitor.view.overdue import WATCH_SECONDS, OverdueWatch, Reexamine
from postdate.monitor.view.vitals import Vitals
from postdate.node import metric, outgoing
from postdate.node.event_loop import LoopWatch
from postdate.node.outgoing import Outgoing
from postdate.node.settings import ProcessSettings
from postdate.node.trace import Tracing
from postdate.payment.accept.meter import PaymentMeter
from postdate.runtime import node
from postdate.runtime.clock_guard import LOOK_SECONDS as CLOCK_SECONDS
from postdate.runtime.clock_guard import ClockGuard
from postdate.runtime.heartbeat import ANSWER_SECONDS, Heartbeat
from postdate.runtime.loop import Loop, Signal
from postdate.runtime.share import nearest
from postdate.runtime.shared_read import SharedReads
from postdate.runtime.wakeup import Wakeup
from postdate.schema import migrate
from postdate.setting import store as setting
from postdate.tenant.spec.quota import Quotas
from postdate.tenant.spec.tier import Tiers
from postdate.worker.call_report import REPORT_SECONDS as CALL_SECONDS
from postdate.worker.call_report import CallReporter
from postdate.worker.meter import JobMeter
from postdate.worker.trouble import TroubleReporter

log = Log()

BEAT_SECONDS: Final = 2.0
REFRESH_SECONDS: Final = 2.0
REPORT_SECONDS: Final = 1.0
FORGET_SECONDS: Final = 60.0
PARTITION_SECONDS: Final = 3600.0


def _random_id() -> UUID:
    return UUID(bytes=secrets.token_bytes(16))


@dataclass(slots=True, kw_only=True)
class Node:
    """What every role of this process shares."""

    settings: ProcessSettings
    database: Database
    roles: list[str]
    # A random id for each start: names may be shared, ids never are.
    node_id: UUID = field(default_factory=_random_id)
    runtime: RuntimeSettings = field(default_factory=RuntimeSettings)
    tracing: Tracing | None = None
    halts: Halts = field(default_factory=Halts)
    troubles: Troubles = field(default_factory=Troubles)
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    loops: list[Loop] = field(default_factory=list)
    # Called with the lane of accepted work, and in how many seconds it is due.
    on_accept: list[Callable[[int, float], None]] = field(default_factory=list)
    # By kind: makes a stage look again at a bucket and lane with overdue work.
    reexamine: defaultdict[str, list[Reexamine]] = field(default_factory=lambda: defaultdict(list))
    # Sent when a subscription may have something to receive.
    deliverable: Signal = field(default_factory=Signal)
    # Lateness since the last heartbeat, by tenant.
    lateness: Lateness = field(default_factory=Lateness)
    shares: TenantShares = field(default_factory=TenantShares)
    loop_watch: LoopWatch = field(default_factory=LoopWatch)
    tallies: Mapping[str, Tally] = field(init=False)
    payment_meter: PaymentMeter = field(init=False)
    vitals: Vitals = field(init=False)
    overdue: OverdueWatch = field(init=False)
    quotas: Quotas = field(init=False)
    safety: CommitSafety = field(init=False)
    # Combines the simultaneous reads of this process's loops.
    reads: SharedReads = field(init=False)
    lanes: LaneDirectory = field(init=False)
    wakeup: Wakeup = field(init=False)
    heartbeat: Heartbeat = field(init=False)
    health: HealthCheck = field(init=False)
    clock_guard: ClockGuard = field(init=False)
    _outgoing: Outgoing | None = None
    _setting_reader: setting.SettingReader = field(default_factory=setting.SettingReader)

    def __post_init__(self) -> None:
        """Build the parts that need the database."""
        self.quotas = Quotas(self.runtime)
        self.safety = CommitSafety(self.runtime)
        self.reads = SharedReads(self.database)
        self.clock_guard = ClockGuard(self.database, self.runtime, self.reads)
        self.lanes = LaneDirectory(self.database, self.reads)
        self.wakeup = Wakeup(self.database)
        self.heartbeat = Heartbeat(self.database, self._beat)
        self.health = HealthCheck(self.database)
        self.on_accept.append(self.wakeup.hint)
        self.tallies = metric.tallies(self.lateness, self.shares, Tiers(self.runtime).of)
        self.payment_meter = PaymentMeter(self.registry)
        self.vitals = Vitals(self.registry, self.database, self.lanes, self.shares, self.reads)
        self.overdue = OverdueWatch(
            self.registry,
            self.database,
            self.lanes,
            self.runtime,
            self.node_id,
            reexamine=self.reexamine,
        )
        JobMeter(self.registry, self.tallies)
        metric.NodeMeter(self.registry, self, version("postdate"))
        ProcessCollector(registry=self.registry)

    @property
    def name(self) -> str:
        """Return the name shown to people."""
        return self.settings.node_name or socket.gethostname()

    @property
    def outgoing(self) -> Outgoing:
        """Return the parts that deliver webhooks and messages, built on first use."""
        if self._outgoing is None:
            self._outgoing = outgoing.build(self.settings, self.database, self.runtime)
        return self._outgoing

    @property
    def breakers(self) -> list[Breakers]:
        """Return the breakers of this process."""
        if self._outgoing is None:
            return []
        return [self._outgoing.webhook.breakers, self._outgoing.queue.breakers]

    def _reports(self) -> dict[DestinationKey, TroubleReport]:
        now = time.monotonic()
        return {
            place: report
            for breakers in self.breakers
            for place, report in breakers.reports(now).items()
        }

    def _calls(self, now: float) -> CallReports:
        return {
            key: report
            for breakers in self.breakers
            for key, report in breakers.calls.reports(now).items()
        }

    def handler(self, kind: str, deliver: JobHandler) -> JobHandler:
        """Return a handler, with a trace span around each delivery if tracing is on."""
        return self.tracing.handler(kind, deliver) if self.tracing else deliver

    def publishing(self, kind: str, deliver: JobHandler) -> JobHandler:
        """Return a handler of events, with a trace span around each if tracing is on."""
        return self.tracing.publishing(kind, deliver) if self.tracing else deliver

    async def close(self) -> None:
        """Close what this node has opened, except the database."""
        if self._outgoing is not None:
            await self._outgoing.close()

    async def refresh_settings(self, _: int = 1) -> int:
        """Load the settings, halts and troubles that other nodes have stored."""
        settings, halts, troubles, safety, _clock = await asyncio.gather(
            self._setting_reader.read(self.reads),
            halt.load(self.reads),
            trouble.load(self.reads),
            durability.read(self.reads),
            self.database.synchronize(self.reads),
        )
        if settings is not None:
            self.runtime.replace(settings)
        self.halts.replace(halts)
        self.troubles.replace(troubles)
        self._hold_back(troubles)
        self.safety.replace(safety)
        self.database.replicated = bool(safety.synchronous_standby_names)
        return 0

    def _hold_back(self, troubles: Sequence[Trouble]) -> None:
        """Hold back destinations that other processes have found failing."""
        now = self.database.unix_ms() / 1000
        held = {(one.tenant_id, one.label): one.held_until.timestamp() - now for one in troubles}
        for breakers in self.breakers:
            breakers.adopt(held, time.monotonic())

    async def _beat(self, connection: Connection) -> None:
        keys = () if node.KEY_ROLES.isdisjoint(self.roles) else self.outgoing.keyring.ids
        given = self.node_id, self.name, self.roles, version("postdate"), keys
        await node.beat(connection, *given, seconds=ANSWER_SECONDS)

    async def add_lateness(self, _: int = 1) -> int:
        """Record how late work began since the last time."""
        if late := self.lateness.take():
            async with self.database.connection() as connection:
                # What a failure has taken is lost: a few counts of ten seconds.
                await activity.add_lateness(connection, late)
        return 0

    async def attach(self, _: int = 1) -> int:
        """Attach hot statements to the database node assigned to this process."""
        owners, live = await asyncio.gather(
            attachment.owners(self.reads), node.list_live(self.reads)
        )
        self.database.shard_map.owners = owners
        near = nearest(live, owners).get(self.node_id)
        if near is not None:
            await attachment.attach(self.database, near)
        return 0

    async def forget(self, _: int = 1) -> int:
        """Delete old heartbeats and figures of activity."""
        async with self.database.connection() as connection:
            await node.forget(connection)
            await activity.forget(connection)
        return 0

    async def leave(self) -> None:
        """Remove this node, so that others take its buckets over immediately."""
        async with self.database.connection() as connection:
            await node.sign_off(connection, self.node_id)

    async def make_partitions(self, _: int = 1) -> int:
        """Create the partitions of history ahead of time."""
        async with self.database.connection() as connection:
            done = await partition.create_ahead(connection, migrate.PARTITION_WEEKS)
        if done.made:
            log.info("partition.made", count=done.made)
        if done.blocked:
            log.error("partition.blocked", partitions=done.blocked, hint="postdate history mend")
        return 0

    def housekeeping(self) -> list[Loop]:
        """Return the loops that every process runs, whatever its roles."""
        teller = TroubleReporter(self.database, self.node_id, self._reports)
        calls = CallReporter(self.database, self.node_id, self._calls)
        attach = Loop("attach", self.attach, limit=1, poll_seconds=BEAT_SECONDS)
        guard = self.clock_guard
        return [
            *([attach] if self.database.sharded else []),
            Loop(
                "clock",
                guard.run_once,
                limit=2,
                poll_seconds=CLOCK_SECONDS,
                blocked=guard.doubt,
            ),
            Loop("settings", self.refresh_settings, limit=1, poll_seconds=REFRESH_SECONDS),
            Loop("troubles", teller.run_once, limit=1, poll_seconds=REPORT_SECONDS),
            Loop("calls", calls.run_once, limit=1, poll_seconds=CALL_SECONDS),
            Loop("lanes", self.lanes.refresh, limit=1, poll_seconds=LANE_SECONDS),
            Loop("heartbeat", self.heartbeat.run_once, limit=1, poll_seconds=BEAT_SECONDS),
            Loop("lateness", self.add_lateness, limit=1, poll_seconds=BEAT_SECONDS),
            Loop("forget", self.forget, limit=1, poll_seconds=FORGET_SECONDS),
            Loop("overdue", self.overdue.run_once, limit=1, poll_seconds=WATCH_SECONDS),
            Loop("partitions", self.make_partitions, limit=1, poll_seconds=PARTITION_SECONDS),
        ]


class BackgroundTasks:
    """The background work of a process, started and stopped together; a failure ends it."""

    def __init__(self) -> None:
        self._ending: set[asyncio.Task[None]] = set()
        self._endless: set[asyncio.Task[None]] = set()
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def start(self, name: str, work: Coroutine[Any, Any, None], *, endless: bool = False) -> None:
        """Run a task that ends when told to, or never; a failure ends the process."""
        kind = self._endless if endless else self._ending
        running = asyncio.create_task(work, name=name)
        kind.add(running)
        running.add_done_callback(kind.discard)
        running.add_done_callback(self._ended)

    def _ended(self, ended: asyncio.Task[None]) -> None:
        if not ended.cancelled() and (error := ended.exception()) and not self.failed.done():
            self.failed.set_exception(error)

    async def stop(self, seconds: float) -> None:
        """Wait for tasks that were told to end, then cancel the rest, endless ones last."""
        if self._ending:
            await asyncio.wait(self._ending, timeout=seconds)
        for left in (*self._ending, *self._endless):
            left.cancel()
        await asyncio.gather(*self._ending, *self._endless, return_exceptions=True)
