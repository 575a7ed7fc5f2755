"""Metrics of settlement."""

import time
from collections import Counter as Count
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import accumulate
from types import MappingProxyType
from typing import Final
from uuid import UUID

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric
from prometheus_client.core import HistogramMetricFamily

from postdate.core.log import Log
from postdate.ledger.settle import (
    Decision,
    DuePayment,
    RetryLater,
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
from postdate.payment.store.settlement import LockedTimer

log = Log()

MIN_LEGS: Final = 20
"""In a smaller batch any account is a large part."""

SAMPLE: Final = 100
"""Payments sampled from a large batch to find its hottest account."""

HOT_RATIO: Final = 0.25
REPORT_SECONDS: Final = 60.0
"""A hot account is named in the log, not in a label: at most this often."""

_NAMES = {
    TransferCompleted: "completed",
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
        self._told_at = 0.0

    def waiting(self, accounts: int, payments: int) -> None:
        """Set how many accounts are locked by others, and how many due payments wait for them."""
        self._locked.set(accounts)
        self._aside.set(payments)

    def settled(
        self,
        timers: Sequence[LockedTimer],
        dues: Sequence[DuePayment],
        decisions: Sequence[Decision],
        seconds: float,
        first_due: Mapping[UUID, datetime] = MappingProxyType({}),
    ) -> None:
        """Count a committed batch; `first_due` has the original instants of retried payments."""
        if not timers:
            return
        self._seconds.observe(seconds)
        self._payments.observe(len(timers))
        for labels, count in Count(map(_labels, decisions)).items():
            self._settled.labels(*labels).inc(count)
        self._balances.inc(2 * sum(isinstance(each, TransferCompleted) for each in decisions))
        self._ended(timers[0].at, dues, decisions, first_due)
        self._touched(dues)

    def _ended(
        self,
        at: datetime,
        dues: Sequence[DuePayment],
        decisions: Sequence[Decision],
        first_due: Mapping[UUID, datetime],
    ) -> None:
        """Count the lateness of ended payments, by tenant; payments to be retried do not count."""
        late: dict[int, list[float]] = defaultdict(list)
        for due, decision in zip(dues, decisions, strict=True):
            if isinstance(decision, TransferCompleted | TransferFailed):
                was_due = first_due.get(due.payment_id, due.due_at) if first_due else due.due_at
                late[due.payer.tenant_id].append((at - was_due).total_seconds())
        for tenant_id, seconds in late.items():
            counts, total = histogram(seconds), sum(seconds)
            self._late.add(counts, total)
            self._lateness.payments(tenant_id, counts)
            self._shares.add(tenant_id, "payment", counts, total)

    def count_poison(self) -> None:
        """Count a payment that broke its batch."""
        self._broken.inc()

    def _touched(self, dues: Sequence[DuePayment]) -> None:
        """Measure how much of a batch touches one account, and log the account if it is much."""
        some = dues[:: max(1, len(dues) // SAMPLE)]
        legs = 2 * len(some)
        if legs < MIN_LEGS:
            return
        touched = Count(key for due in some for key in (due.payer, due.payee))
        (account, count), *_ = touched.most_common(1)
        self._hottest.observe(count / legs)
        if count / legs >= HOT_RATIO and time.monotonic() >= self._told_at + REPORT_SECONDS:
            self._told_at = time.monotonic()
            log.info(
                "settlement.hot_account",
                tenant_id=account.tenant_id,
                account_id=account.account_id,
                ratio=round(count / legs, 2),
            )


def _labels(decision: Decision) -> tuple[str, str]:
    code = str(decision.reason) if isinstance(decision, TransferFailed | RetryLater) else ""
    return _NAMES[type(decision)], code
