"""What a node tells Prometheus of itself."""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily

from postdate.core.setting.setting import LONG_AGO
from postdate.core.setting.setting import Settings as RuntimeSettings
from postdate.database.connection.database import Database
from postdate.delivery.breaker import Breakers
from postdate.job.spec.tally import Tally, no_tier
from postdate.monitor.spec.activity import Lateness
from postdate.monitor.spec.tenant_share import TenantShares
from postdate.node.event_loop import LoopWatch
from postdate.node.log import STANDARD_ERROR
from postdate.runtime.loop import Loop


def tallies(
    lateness: Lateness | None = None,
    shares: TenantShares | None = None,
    tier_of: Callable[[int], str] = no_tier,
) -> dict[str, Tally]:
    """Make the counts of jobs, one for each kind of lane."""
    return {kind: Tally(lateness, shares, tier_of) for kind in ("push", "pull")}


class _Node(Protocol):
    """The parts of a node that its metrics describe."""

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

    def __init__(self, registry: CollectorRegistry, node: _Node, version: str) -> None:
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
        yield self._dropped()

    def _info(self) -> Metric:
        family = InfoMetricFamily(
            "postdate_node", "This process.", labels=["node", "roles", "version"]
        )
        family.add_metric([self._node.name, ",".join(self._node.roles), self._version], {})
        return family

    def _loops(self) -> Iterator[Metric]:
        silent = GaugeMetricFamily(
            "postdate_loop_silent_seconds",
            "Time since a loop's step last succeeded.",
            labels=["loop"],
        )
        failures = GaugeMetricFamily(
            "postdate_loop_failures", "Steps of a loop that failed in a row.", labels=["loop"]
        )
        blocked = GaugeMetricFamily(
            "postdate_loop_blocked", "1 while a person or a guard has stopped it.", labels=["loop"]
        )
        for loop in self._node.loops:
            silent.add_metric([loop.name], loop.silent_seconds)
            failures.add_metric([loop.name], loop.failures)
            blocked.add_metric([loop.name], int(loop.blocked is not None))
        yield from (silent, failures, blocked)

    def _quarantine(self) -> Metric:
        family = GaugeMetricFamily(
            "postdate_restore_quarantine",
            "1 while what was due before a restore waits to be confirmed.",
        )
        family.add_metric([], int(self._node.runtime.floor > LONG_AGO))
        return family

    def _held(self) -> Metric:
        family = GaugeMetricFamily(
            "postdate_event_loop_held_seconds",
            "Longest time of the last one or two minutes in which the process served no request.",
        )
        family.add_metric([], self._node.loop_watch.longest_seconds)
        return family

    def _dropped(self) -> Metric:
        family = CounterMetricFamily(
            "postdate_log_dropped",
            "Log lines that could not be written: the disk is full, or no process reads them.",
        )
        family.add_metric([], STANDARD_ERROR.dropped)
        return family

    def _pools(self) -> Metric:
        family = GaugeMetricFamily(
            "postdate_pool_connections",
            "Connections to the database: used, idle, and the most there may be.",
            labels=["pool", "state"],
        )
        database = self._node.database
        for name, pool in (("writer", database.writer), ("reader", database.reader)):
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
        for breakers in self._node.breakers:
            for state, count in breakers.states(time.monotonic()).items():
                found[state] += count
        for state, count in found.items():
            family.add_metric([state], count)
        return family
