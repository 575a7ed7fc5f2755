"""What settlement tells about itself."""

import time
from collections import Counter as Count
from collections.abc import Mapping, Sequence
from typing import Final

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from postdate.ledger.settle import Completed, Decision, Due, Failed, RetryLater, Waits
from postdate.model.activity import Lateness
from postdate.store.prove import BUCKET_CHECKS
from postdate.store.settlement import LockedTimer

log = structlog.get_logger()

LEGS_LEAST: Final = 20
"""In a smaller batch any account is a large part."""

HOT_RATIO: Final = 0.25
TELL_SECONDS: Final = 60.0
"""A hot account is named in the log, not in a label: at most this often."""

CHECKS: Final = ("overdue", "dead_lettered", *BUCKET_CHECKS)
_NAMES = {Completed: "completed", Failed: "failed", RetryLater: "retried", Waits: "waited"}
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15, 60, 300, 3600)
_PAYMENTS = (1, 2, 5, 10, 25, 50, 100, 250, 500, 1000)
_RATIOS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5)


class Meter:
    """Counters and histograms of one process."""

    def __init__(
        self, registry: CollectorRegistry | None = None, lateness: Lateness | None = None
    ) -> None:
        self._late = lateness or Lateness()
        self._settled = Counter(
            "postdate_payment_settled",
            "Due payments by what became of them, and why they failed.",
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
            "Executions of payments that failed for a reason that is not about money.",
            registry=registry,
        )
        self._lateness = Histogram(
            "postdate_payment_lateness_seconds",
            "From due_at to the lock of the settlement.",
            registry=registry,
            buckets=_SECONDS,
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
            "Part of a batch's legs (20 or more) that touch its most touched account.",
            registry=registry,
            buckets=_RATIOS,
        )
        self._findings = Gauge(
            "postdate_reconcile_findings",
            "What the last round of reconciling found that should not be, by check.",
            ["check"],
            registry=registry,
        )
        self._locked = Gauge(
            "postdate_settlement_locked_accounts",
            "Accounts that another session holds, so that their due payments wait.",
            registry=registry,
        )
        self._aside = Gauge(
            "postdate_settlement_aside_payments",
            "Due payments that wait for such an account, as far as this process has met them.",
            registry=registry,
        )
        self._told_at = 0.0

    def waiting(self, accounts: int, payments: int) -> None:
        """Say how many accounts are held by others, and how many due payments wait for them."""
        self._locked.set(accounts)
        self._aside.set(payments)

    def settled(
        self,
        timers: Sequence[LockedTimer],
        dues: Sequence[Due],
        decisions: Sequence[Decision],
        seconds: float,
    ) -> None:
        """Count a committed batch."""
        if not timers:
            return
        self._seconds.observe(seconds)
        self._payments.observe(len(timers))
        for labels, count in Count(map(_labels, decisions)).items():
            self._settled.labels(*labels).inc(count)
        self._balances.inc(2 * sum(isinstance(each, Completed) for each in decisions))
        for timer in timers:
            late_seconds = (timer.at - timer.due_at).total_seconds()
            self._lateness.observe(late_seconds)
            self._late.payment(timer.tenant_id, late_seconds)
        self._touched(dues)

    def reconciled(self, found: Mapping[str, int]) -> None:
        """Say what the last round of reconciling found."""
        for check in CHECKS:
            self._findings.labels(check).set(found.get(check, 0))

    def broke(self) -> None:
        """Count a payment that broke its batch."""
        self._broken.inc()

    def _touched(self, dues: Sequence[Due]) -> None:
        """Look how much of a batch meets at one account, and name it when it is much."""
        legs = 2 * len(dues)
        if legs < LEGS_LEAST:
            return
        touched = Count(key for due in dues for key in (due.payer, due.payee))
        (account, count), *_ = touched.most_common(1)
        self._hottest.observe(count / legs)
        if count / legs >= HOT_RATIO and time.monotonic() >= self._told_at + TELL_SECONDS:
            self._told_at = time.monotonic()
            log.info(
                "settlement.hot_account",
                tenant_id=account.tenant_id,
                account_id=account.account_id,
                ratio=round(count / legs, 2),
            )


def _labels(decision: Decision) -> tuple[str, str]:
    code = str(decision.reason) if isinstance(decision, Failed | RetryLater) else ""
    return _NAMES[type(decision)], code
