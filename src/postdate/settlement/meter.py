"""Metrics of settlement."""

import time
from collections import Counter as Count
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import accumulate
from typing import Final, TypeVar
from uuid import UUID

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric
from prometheus_client.core import HistogramMetricFamily

from postdate.core.log import Log
from postdate.ledger.settle import (
    Paid,
    RetryLater,
    SettlementResult,
    TransferCompleted,
    TransferFailed,
    Waits,
)
from postdate.monitor.spec.activity import (
    LATE_SECONDS,
    Lateness,
    add_counts,
    empty_histogram,
    histogram,
)
from postdate.monitor.spec.tenant_share import TenantShares
from postdate.payment.store.held_payment import HeldPayments
from postdate.payment.store.settlement import DUE_ORIGIN
from postdate.settlement.commit import Commit

log = Log()

Item = TypeVar("Item")

MIN_LEGS: Final = 20
"""In a smaller batch any account is a large part."""

SAMPLE: Final = 100
"""Payments sampled from a large batch to find its hottest account."""

HOT_RATIO: Final = 0.25
REPORT_SECONDS: Final = 60.0
"""A hot account is named in the log, not in a label: at most this often."""

_NAMES: Final[Mapping[type[SettlementResult], str]] = {
    TransferCompleted: "completed",
    Paid: "completed",
    TransferFailed: "failed",
    RetryLater: "retried",
    Waits: "waited",
}
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15, 60, 300, 3600)
_PAYMENTS = (1, 2, 5, 10, 25, 50, 100, 250, 500, 1000)
_RATIOS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5)


class LatenessHistogram:
    """A histogram to which a whole batch is added at once."""

    def __init__(self, registry: CollectorRegistry | None) -> None:
        self._counts = empty_histogram()
        self._sum = 0.0
        if registry is not None:
            registry.register(self)

    def add(self, counts: Sequence[int], seconds: float) -> None:
        """Add what was counted, and its sum."""
        add_counts(self._counts, counts)
        self._sum += seconds

    def collect(self) -> Iterator[Metric]:
        """Return the histogram as it stands."""
        family = HistogramMetricFamily(
            "postdate_payment_lateness_seconds",
            "From the first due instant of a payment to the settlement that ended it.",
        )
        bounds = [*map(str, LATE_SECONDS), "+Inf"]
        family.add_metric([], list(zip(bounds, accumulate(self._counts), strict=True)), self._sum)
        yield family


class SettlementMeter:
    """Counters and histograms of one process."""

    def __init__(
        self,
        registry: CollectorRegistry | None = None,
        lateness: Lateness | None = None,
        shares: TenantShares | None = None,
    ) -> None:
        self._lateness = lateness or Lateness()
        self._shares = shares or TenantShares()
        self._late = LatenessHistogram(registry)
        self._settled = Counter(
            "postdate_payment_settled",
            "Due payments by outcome, and the reason if they failed.",
            ["result", "code"],
            registry=registry,
        )
        self._balances = Counter(
            "postdate_balance_updates",
            "Balances that settled payments changed: two for each that completed.",
            registry=registry,
        )
        self._broken = Counter(
            "postdate_payment_broken",
            "Executions of payments that failed for a technical reason.",
            registry=registry,
        )
        self._seconds = Histogram(
            "postdate_settlement_batch_seconds",
            "From lock to commit of one batch.",
            registry=registry,
            buckets=_SECONDS,
        )
        self._payments = Histogram(
            "postdate_settlement_batch_payments",
            "Payments of one batch.",
            registry=registry,
            buckets=_PAYMENTS,
        )
        self._hottest = Histogram(
            "postdate_settlement_hot_account_ratio",
            "Share of a batch's legs (20 or more) that touch its busiest account.",
            registry=registry,
            buckets=_RATIOS,
        )
        self._locked = Gauge(
            "postdate_settlement_locked_accounts",
            "Accounts locked by another session, so that their due payments wait.",
            registry=registry,
        )
        self._aside = Gauge(
            "postdate_settlement_aside_payments",
            "Due payments known to this process that wait for a locked account.",
            registry=registry,
        )
        self._reported_at = 0.0

    def waiting(self, accounts: int, payments: int) -> None:
        """Set how many accounts are locked by others, and how many due payments wait for them."""
        self._locked.set(accounts)
        self._aside.set(payments)

    def settled(self, commit: Commit) -> None:
        """Count a committed batch that was decided one by one."""
        self._seconds.observe(commit.seconds)
        self._payments.observe(len(commit.dues))
        for labels, count in Count(map(_labels, commit.results)).items():
            self._settled.labels(*labels).inc(count)
        completed = sum(isinstance(each, TransferCompleted) for each in commit.results)
        self._balances.inc(2 * completed)
        late: dict[int, list[float]] = defaultdict(list)
        for due, result in zip(commit.dues, commit.results, strict=True):
            # A payment to be retried has not ended.
            if isinstance(result, TransferCompleted | TransferFailed):
                was_due = commit.first_due.get(due.payment_id, due.due_at)
                late[due.payer.tenant_id].append((commit.at - was_due).total_seconds())
        self._ended(late)
        some = _sample(commit.dues)
        self._touched([(key.tenant_id, key.account_id) for due in some for key in due.accounts])

    def paid(self, held: HeldPayments, seconds: float, first_due: Mapping[UUID, datetime]) -> None:
        """Count a committed batch that the database has settled; all of it completed."""
        count = len(held)
        if not count:
            return
        self._seconds.observe(seconds)
        self._payments.observe(count)
        self._settled.labels("completed", "").inc(count)
        self._balances.inc(2 * count)
        at = (held.at - DUE_ORIGIN).total_seconds()
        was_due = held.due_seconds
        if first_due:
            first = {each: (due - DUE_ORIGIN).total_seconds() for each, due in first_due.items()}
            was_due = list(map(first.get, held.ids, held.due_seconds))
        late: dict[int, list[float]] = defaultdict(list)
        for tenant_id, due in zip(held.tenants, was_due, strict=True):
            late[tenant_id].append(at - due)
        self._ended(late)
        tenants = _sample(held.tenants)
        payers = zip(tenants, _sample(held.payers), strict=True)
        self._touched([*payers, *zip(tenants, _sample(held.payees), strict=True)])

    def _ended(self, late: Mapping[int, Sequence[float]]) -> None:
        """Count the lateness of ended payments, by tenant."""
        for tenant_id, seconds in late.items():
            counts, total = histogram(seconds), sum(seconds)
            self._late.add(counts, total)
            self._lateness.payments(tenant_id, counts)
            self._shares.add(tenant_id, "payment", counts, total)

    def count_poison(self) -> None:
        """Count a payment that broke its batch."""
        self._broken.inc()

    def _touched(self, legs: Sequence[tuple[int, str]]) -> None:
        """Measure how much of a batch touches one account, and log the account if it is much."""
        if len(legs) < MIN_LEGS:
            return
        ((tenant_id, account_id), count), *_ = Count(legs).most_common(1)
        ratio = count / len(legs)
        self._hottest.observe(ratio)
        if ratio >= HOT_RATIO and time.monotonic() >= self._reported_at + REPORT_SECONDS:
            self._reported_at = time.monotonic()
            log.info(
                "settlement.hot_account",
                tenant_id=tenant_id,
                account_id=account_id,
                ratio=round(ratio, 2),
            )


def _sample(items: Sequence[Item]) -> Sequence[Item]:
    """Return some of a large batch, evenly."""
    return items[:: max(1, len(items) // SAMPLE)]


def _labels(result: SettlementResult) -> tuple[str, str]:
    code = str(result.reason) if isinstance(result, TransferFailed | RetryLater) else ""
    return _NAMES[type(result)], code
