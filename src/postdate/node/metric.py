"""What a node tells Prometheus: its meters, and the reference page that lists every metric."""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Protocol

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily

from postdate.api.http.meter import HttpMeter
from postdate.api.routes.health import ReadinessMeter
from postdate.delivery.breaker import Breakers
from postdate.intake.payment.meter import PaymentMeter
from postdate.model.activity import Lateness
from postdate.model.job.tally import Tally
from postdate.model.setting.setting import LONG_AGO
from postdate.model.setting.setting import Settings as RuntimeSettings
from postdate.model.tenant.tenant_share import TenantShares
from postdate.node.event_loop import LoopWatch
from postdate.proof.meter import ProofMeter
from postdate.publisher.meter import PublisherMeter
from postdate.runtime.loop import Loop
from postdate.scheduler.meter import ScheduleMeter
from postdate.settlement.meter import SettlementMeter
from postdate.store.connection.database import Database
from postdate.views.foresight.money_watch import will_fail_gauge
from postdate.views.monitor.overdue import OverdueMeter
from postdate.views.monitor.vitals import Vitals
from postdate.worker.meter import JobMeter

Tallies = Mapping[str, Tally]


def tallies(
    lateness: Lateness | None = None, shares: TenantShares | None = None
) -> dict[str, Tally]:
    """Make the counts of jobs, one for each kind of lane."""
    return {"push": Tally(lateness, shares), "pull": Tally(lateness, shares)}


class _Node(Protocol):
    """What a process knows of itself."""

    @property
    def loops(self) -> Sequence[Loop]: ...
    @property
    def database(self) -> Database: ...
    @property
    def roles(self) -> list[str]: ...
    @property
    def name(self) -> str: ...
    @property
    def breakers(self) -> Sequence[Breakers]: ...
    @property
    def runtime(self) -> RuntimeSettings: ...
    @property
    def loop_watch(self) -> LoopWatch: ...


class NodeMeter:
    """The process itself: its loops, its connections, the destinations it holds back."""

    def __init__(self, registry: CollectorRegistry, node: _Node | None, version: str = "") -> None:
        self._node = node
        self._version = version
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        """Return the figures of this process."""
        yield self._info()
        yield from self._loops()
        yield self._pools()
        yield self._breakers()
        yield self._quarantine()
        yield self._held()

    def _info(self) -> Metric:
        family = InfoMetricFamily(
            "postdate_node", "This process.", labels=["node", "roles", "version"]
        )
        if self._node:
            family.add_metric([self._node.name, ",".join(self._node.roles), self._version], {})
        return family

    def _loops(self) -> Iterator[Metric]:
        silent = GaugeMetricFamily(
            "postdate_loop_silent_seconds", "Time since a loop's step ended well.", labels=["loop"]
        )
        failures = GaugeMetricFamily(
            "postdate_loop_failures", "Steps of a loop that failed in a row.", labels=["loop"]
        )
        blocked = GaugeMetricFamily(
            "postdate_loop_blocked", "1 while somebody or a guard has stopped it.", labels=["loop"]
        )
        for loop in self._node.loops if self._node else ():
            silent.add_metric([loop.name], loop.silent_seconds)
            failures.add_metric([loop.name], loop.failures)
            blocked.add_metric([loop.name], int(loop.blocked is not None))
        yield from (silent, failures, blocked)

    def _quarantine(self) -> Metric:
        family = GaugeMetricFamily(
            "postdate_restore_quarantine",
            "1 while what was due before a restore waits to be confirmed.",
        )
        held = self._node is not None and self._node.runtime.floor > LONG_AGO
        family.add_metric([], int(held))
        return family

    def _held(self) -> Metric:
        family = GaugeMetricFamily(
            "postdate_event_loop_held_seconds",
            "Longest time of the last one or two minutes in which the process served nobody.",
        )
        if self._node:
            family.add_metric([], self._node.loop_watch.longest_seconds)
        return family

    def _pools(self) -> Metric:
        family = GaugeMetricFamily(
            "postdate_pool_connections",
            "Connections to the database: used, idle, and the most there may be.",
            labels=["pool", "state"],
        )
        database = self._node.database if self._node else None
        pools = {"writer": database.writer, "reader": database.reader} if database else {}
        for name, pool in pools.items():
            idle = pool.get_idle_size()
            family.add_metric([name, "used"], pool.get_size() - idle)
            family.add_metric([name, "idle"], idle)
            family.add_metric([name, "most"], pool.get_max_size())
        return family

    def _breakers(self) -> Metric:
        family = GaugeMetricFamily(
            "postdate_breaker_destinations",
            "Destinations in trouble, as this process sees them: failing, open, probing.",
            labels=["state"],
        )
        found = dict.fromkeys(("failing", "open", "probing"), 0)
        for breakers in self._node.breakers if self._node else ():
            for state, count in breakers.states(time.monotonic()).items():
                found[state] += count
        for state, count in found.items():
            family.add_metric([state], count)
        return family


def full_registry() -> CollectorRegistry:
    """Return a registry with every meter, without a node: for the reference page."""
    registry = CollectorRegistry()
    for meter in (
        HttpMeter,
        ReadinessMeter,
        PaymentMeter,
        PublisherMeter,
        ScheduleMeter,
        SettlementMeter,
        ProofMeter,
        OverdueMeter,
    ):
        meter(registry)
    will_fail_gauge(registry)
    JobMeter(registry, tallies())
    NodeMeter(registry, None)
    Vitals(registry, None, None)
    return registry


_SUFFIX: Final = {"counter": "_total", "info": "_info"}


def names() -> dict[str, tuple[str, str]]:
    """Return every metric as Prometheus knows it, with its type and what it says."""
    found = {
        family.name + _SUFFIX.get(family.type, ""): (family.type, family.documentation)
        for family in full_registry().collect()
    }
    return dict(sorted(found.items()))


def reference() -> str:
    """Write the table of the metrics for the reference page."""
    lines = ["| metric | type | meaning |", "|---|---|---|"]
    lines += [f"| `{name}` | {kind} | {doc} |" for name, (kind, doc) in names().items()]
    return "\n".join(lines)
