"""Metric families of the database; the set of families does not depend on what is known."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, TypedDict

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from postdate.database.partition import Strays
from postdate.monitor.store.vital import (
    AuditRun,
    BucketBacklog,
    Pin,
    ReplicationSlot,
    Standby,
    TableRow,
)
from postdate.monitor.view.pending import Pending, render_pending

KINDS: Final = ("push", "pull", "payment", "schedule", "delivery")
ROLES: Final = ("api", "worker", "settlement", "publisher")
PIN_SECONDS: Final = 10.0
"""A younger snapshot is ordinary work, and gets no series of its own."""

MeasuredVitals = Sequence[tuple[str, BucketBacklog]]
MetricSamples = Iterable[tuple[Sequence[str], float]]
"""The values of the labels, and the value."""


class Parts(TypedDict, total=False):
    """What was read, by part."""

    backlog: MeasuredVitals
    pending: Pending
    tenant: Mapping[int, str]
    event: float
    table: Sequence[TableRow]
    pin: Pin | None
    standby: Sequence[Standby]
    slot: Sequence[ReplicationSlot]
    node: Mapping[str, int]
    paused: int
    audit: Sequence[AuditRun]
    partition: int
    stray: Sequence[Strays]


def render(parts: Parts, ages: Mapping[str, float], failed: Mapping[str, int]) -> Iterator[Metric]:
    """Make every family; what is not known has no sample."""
    yield _gauge(
        "postdate_vitals_age_seconds",
        "Age of the last reading of each part of the database's state.",
        (([part], seconds) for part, seconds in ages.items()),
        ["part"],
    )
    yield _failures(failed)
    yield from _backlog(parts.get("backlog"), parts.get("pending"))
    yield _single("postdate_lanes_paused", "Paused lanes.", parts.get("paused"))
    waited = parts.get("event")
    yield _single(
        "postdate_event_unsealed_seconds",
        "How long the oldest unsealed event has waited.",
        None if waited is None else max(0.0, waited),
    )
    yield from _tables(parts.get("table", ()))
    yield from _pin(parts.get("pin"))
    yield from _replication(parts.get("standby", ()), parts.get("slot", ()))
    yield _nodes(parts.get("node"))
    yield from _audits(parts.get("audit", ()))
    yield _single(
        "postdate_partition_weeks_ahead",
        "Weeks for which history has partitions; below 2 the maintenance has failed.",
        parts.get("partition"),
    )
    yield _strays(parts.get("stray", ()))


def _gauge(name: str, doc: str, samples: MetricSamples, labels: Sequence[str] = ()) -> Metric:
    family = GaugeMetricFamily(name, doc, labels=labels)
    for values, value in samples:
        family.add_metric(values, value)
    return family


def _single(name: str, doc: str, value: float | None) -> Metric:
    return _gauge(name, doc, [] if value is None else [([], value)])


def _failures(failed: Mapping[str, int]) -> Metric:
    family = CounterMetricFamily(
        "postdate_vitals_failed", "Readings of the database's state that failed.", labels=["part"]
    )
    for part, count in failed.items():
        family.add_metric([part], count)
    return family


def _backlog(found: MeasuredVitals | None, pending: Pending | None) -> Iterator[Metric]:
    overdue: dict[str, int] = defaultdict(int)
    oldest: dict[str, float] = defaultdict(float)
    parked: dict[str, int] = defaultdict(int)
    for kind, row in found or ():
        overdue[kind] += row.overdue
        oldest[kind] = max(oldest[kind], row.seconds or 0.0)
        parked[kind] += row.parked
    kinds = () if found is None else KINDS
    late = "Timers that are due and not done; a lower bound above 6,250."
    yield _gauge("postdate_backlog", late, (([k], overdue[k]) for k in kinds), ["kind"])
    longest = "How long the oldest due timer has been due."
    yield _gauge(
        "postdate_backlog_oldest_seconds", longest, (([k], oldest[k]) for k in kinds), ["kind"]
    )
    waits = "Work that waits for a person: dead-lettered payments and jobs in doubt."
    yield _gauge("postdate_parked", waits, (([k], parked[k]) for k in kinds), ["kind"])
    yield from render_pending(pending, overdue, parked)


def _strays(found: Sequence[Strays]) -> Metric:
    rows: Counter[str] = Counter()
    for each in found:
        rows[each.parent] += each.rows
    return _gauge(
        "postdate_partition_stray_rows",
        "Rows in the default partition of a table, where none should be, counted up to 10,000.",
        (([table], count) for table, count in sorted(rows.items())),
        ["table"],
    )


def _tables(rows: Sequence[TableRow]) -> Iterator[Metric]:
    for name, doc, field in (
        ("postdate_table_dead_rows", "Dead rows of a hot table, by the statistics.", "dead"),
        ("postdate_table_rows", "Live rows of a hot table, by the statistics.", "live"),
        ("postdate_table_bytes", "Size of a hot table with its indexes.", "bytes"),
        ("postdate_table_vacuum_age_seconds", "Time since it was last vacuumed.", "seconds"),
    ):
        values = [(row.name, getattr(row, field)) for row in rows]
        known = (([table], value) for table, value in values if value is not None)
        yield _gauge(name, doc, known, ["table"])


def _pin(pin: Pin | None) -> Iterator[Metric]:
    long = pin is not None and (pin.seconds is None or pin.seconds >= PIN_SECONDS)
    yield _gauge(
        "postdate_snapshot_pinned_seconds",
        "How long the oldest snapshot has prevented the removal of dead rows, and who holds it.",
        [([pin.kind, pin.name, pin.login], pin.seconds or 0.0)] if pin and long else [],
        ["kind", "name", "login"],
    )
    yield _single(
        "postdate_snapshot_pinned_transactions",
        "Transactions started since the oldest snapshot in use.",
        None if pin is None else pin.xids,
    )


def _replication(standbys: Sequence[Standby], slots: Sequence[ReplicationSlot]) -> Iterator[Metric]:
    counts = Counter((each.state, each.sync_state) for each in standbys)
    yield _gauge(
        "postdate_replication_standbys",
        "Standbys by state and by whether commits wait for them.",
        counts.items(),
        ["state", "sync_state"],
    )
    behind: dict[str, float] = defaultdict(float)
    for each in standbys:
        behind[each.name] = max(behind[each.name], each.bytes)
    yield _gauge(
        "postdate_replication_lag_bytes",
        "WAL a standby has not replayed.",
        (([name], count) for name, count in behind.items()),
        ["standby"],
    )
    yield _gauge(
        "postdate_replication_slot_bytes",
        "WAL that a replication slot keeps on disk.",
        (([slot.name, str(slot.active).lower()], slot.bytes) for slot in slots),
        ["slot", "active"],
    )


def _nodes(nodes: Mapping[str, int] | None) -> Metric:
    found = () if nodes is None else [([role], nodes.get(role, 0)) for role in ROLES]
    return _gauge("postdate_nodes", "Live nodes by role.", found, ["role"])


def _audits(runs: Sequence[AuditRun]) -> Iterator[Metric]:
    for name, doc, field in (
        ("postdate_audit_findings", "Findings of the last full check of the books.", "findings"),
        ("postdate_audit_age_seconds", "Age of the last full check.", "seconds"),
    ):
        yield _gauge(name, doc, (([run.name], getattr(run, field)) for run in runs), ["audit"])
