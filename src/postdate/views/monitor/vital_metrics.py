"""Metric families of the database; the set of families does not depend on what is known."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypedDict

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from postdate.store.operate.partition import Strays
from postdate.store.operate.vital import (
    AuditRun,
    BucketBacklog,
    Pin,
    ReplicationSlot,
    Standby,
    TableRow,
)
from postdate.views.monitor.pending import Pending, render_pending

KINDS: Final = ("push", "pull", "payment", "schedule", "delivery")
ROLES: Final = ("api", "worker", "settlement", "publisher")
PIN_SECONDS: Final = 10.0
"""A younger snapshot is ordinary work, and gets no series of its own."""

Found = Sequence[tuple[str, BucketBacklog]]


class Parts(TypedDict, total=False):
    """What was read, by part."""

    backlog: Found
    pending: Pending
    tenant: Mapping[int, str]
    event: float
    table: Sequence[TableRow]
    pin: Pin | None
    standby: Sequence[Standby]
    slot: Sequence[ReplicationSlot]
    node: Mapping[str, int]
    audit: Sequence[AuditRun]
    partition: int
    stray: Sequence[Strays]


def render(
    parts: Parts, ages: Mapping[str, float], failed: Mapping[str, int], paused: int
) -> Iterator[Metric]:
    """Make every family; what is not known has no sample."""
    yield _ages(ages)
    yield _failures(failed)
    yield from _backlog(parts.get("backlog"), parts.get("pending"))
    lanes = GaugeMetricFamily("postdate_lanes_paused", "Lanes that somebody paused.")
    lanes.add_metric([], paused)
    yield lanes
    yield _event(parts.get("event"))
    yield from _tables(parts.get("table", ()))
    yield from _pin(parts.get("pin"))
    yield from _replication(parts.get("standby", ()), parts.get("slot", ()))
    yield _nodes(parts.get("node"))
    yield from _audits(parts.get("audit", ()))
    yield _partition(parts.get("partition"))
    yield _strays(parts.get("stray", ()))


def _ages(ages: Mapping[str, float]) -> Metric:
    family = GaugeMetricFamily(
        "postdate_vitals_age_seconds",
        "How old the last reading of each part of the database's state is.",
        labels=["part"],
    )
    for part, seconds in ages.items():
        family.add_metric([part], seconds)
    return family


def _failures(failed: Mapping[str, int]) -> Metric:
    family = CounterMetricFamily(
        "postdate_vitals_failed", "Readings that the database did not answer.", labels=["part"]
    )
    for part, count in failed.items():
        family.add_metric([part], count)
    return family


def _backlog(found: Found | None, pending: Pending | None) -> Iterator[Metric]:
    overdue: dict[str, int] = defaultdict(int)
    oldest: dict[str, float] = defaultdict(float)
    parked: dict[str, int] = defaultdict(int)
    for kind, row in found or ():
        overdue[kind] += row.overdue
        oldest[kind] = max(oldest[kind], row.seconds or 0.0)
        parked[kind] += row.parked
    for name, doc, values in (
        (
            "postdate_backlog",
            "Timers that are due and not done; a lower bound above 6,250.",
            overdue,
        ),
        ("postdate_backlog_oldest_seconds", "How long the oldest of them has been due.", oldest),
        (
            "postdate_parked",
            "What waits for a person: payments dead-lettered, jobs in doubt.",
            parked,
        ),
    ):
        family = GaugeMetricFamily(name, doc, labels=["kind"])
        for kind in KINDS if found is not None else ():
            family.add_metric([kind], values[kind])
        yield family
    yield from render_pending(pending, overdue, parked)


def _event(seconds: float | None) -> Metric:
    family = GaugeMetricFamily(
        "postdate_event_unsealed_seconds", "How long the oldest unsealed event has waited."
    )
    if seconds is not None:
        family.add_metric([], max(0.0, seconds))
    return family


def _partition(weeks: int | None) -> Metric:
    family = GaugeMetricFamily(
        "postdate_partition_weeks_ahead",
        "Weeks for which history has partitions; below 2 the maintenance has failed.",
    )
    if weeks is not None:
        family.add_metric([], weeks)
    return family


def _strays(found: Sequence[Strays]) -> Metric:
    family = GaugeMetricFamily(
        "postdate_partition_stray_rows",
        "Rows of a table in its default partition, where none should be, counted up to 10,000.",
        labels=["table"],
    )
    for table in sorted({each.parent for each in found}):
        family.add_metric([table], sum(each.rows for each in found if each.parent == table))
    return family


def _tables(rows: Sequence[TableRow]) -> Iterator[Metric]:
    for name, doc, field in (
        ("postdate_table_dead_rows", "Dead rows of a hot table, by the statistics.", "dead"),
        ("postdate_table_rows", "Living rows of a hot table, by the statistics.", "live"),
        ("postdate_table_bytes", "Size of a hot table with its indexes.", "bytes"),
        ("postdate_table_vacuum_age_seconds", "Time since it was last vacuumed.", "seconds"),
    ):
        family = GaugeMetricFamily(name, doc, labels=["table"])
        for row in rows:
            if (value := getattr(row, field)) is not None:
                family.add_metric([row.name], value)
        yield family


def _pin(pin: Pin | None) -> Iterator[Metric]:
    seconds = GaugeMetricFamily(
        "postdate_snapshot_pinned_seconds",
        "How long the oldest snapshot has kept dead rows from being removed, and who holds it.",
        labels=["kind", "name", "login"],
    )
    xids = GaugeMetricFamily(
        "postdate_snapshot_pinned_transactions",
        "Transactions begun since the oldest snapshot that somebody holds.",
    )
    if pin is not None:
        xids.add_metric([], pin.xids)
        if pin.seconds is None or pin.seconds >= PIN_SECONDS:
            seconds.add_metric([pin.kind, pin.name, pin.login], pin.seconds or 0.0)
    yield seconds
    yield xids


def _replication(standbys: Sequence[Standby], slots: Sequence[ReplicationSlot]) -> Iterator[Metric]:
    up = GaugeMetricFamily(
        "postdate_replication_standbys",
        "Standbys by state and by whether commits wait for them.",
        labels=["state", "sync_state"],
    )
    counts: dict[tuple[str, str], int] = defaultdict(int)
    lag = GaugeMetricFamily(
        "postdate_replication_lag_bytes", "WAL a standby has not replayed.", labels=["standby"]
    )
    behind: dict[str, float] = defaultdict(float)
    for standby in standbys:
        counts[standby.state, standby.sync_state] += 1
        behind[standby.name] = max(behind[standby.name], standby.bytes)
    for name, count in behind.items():
        lag.add_metric([name], count)
    for states, many in counts.items():
        up.add_metric(list(states), many)
    kept = GaugeMetricFamily(
        "postdate_replication_slot_bytes",
        "WAL that a replication slot keeps on the disk.",
        labels=["slot", "active"],
    )
    for slot in slots:
        kept.add_metric([slot.name, str(slot.active).lower()], slot.bytes)
    yield from (up, lag, kept)


def _nodes(nodes: Mapping[str, int] | None) -> Metric:
    family = GaugeMetricFamily("postdate_nodes", "Live nodes by role.", labels=["role"])
    for role in ROLES if nodes is not None else ():
        family.add_metric([role], (nodes or {}).get(role, 0))
    return family


def _audits(runs: Sequence[AuditRun]) -> Iterator[Metric]:
    for name, doc, field in (
        ("postdate_audit_findings", "What the last whole check of the books found.", "findings"),
        ("postdate_audit_age_seconds", "How long ago that was.", "seconds"),
    ):
        family = GaugeMetricFamily(name, doc, labels=["audit"])
        for run in runs:
            family.add_metric([run.name], getattr(run, field))
        yield family
