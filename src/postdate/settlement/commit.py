"""What one commit of a settler did, and the lines that the log has of it."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final, NamedTuple
from uuid import UUID

import msgspec

from postdate.account.store.account import AccountKey
from postdate.core.instant import instant_text
from postdate.ledger.held import dues_of
from postdate.ledger.settle import (
    DuePayment,
    Paid,
    RetryLater,
    SettlementResult,
    TransferCompleted,
    TransferFailed,
)
from postdate.monitor.store.item_log import items
from postdate.payment.spec.payment import execution_name
from postdate.payment.store.held_payment import HeldPayments
from postdate.timer.timer import LONG_AGO

Followed = Callable[[Sequence[DuePayment], Sequence[SettlementResult], float], None]
"""Called after a commit with what was settled, the results, and how long it took."""

_PAID: Final = Paid()


class SettlementAttempt(msgspec.Struct):
    """What a transaction is about to settle, filled while it runs: asked when it ends too early."""

    dues: list[DuePayment] = []
    held: HeldPayments | None = None

    def accounts(self) -> set[AccountKey]:
        """Return the accounts that the transaction changes."""
        decided = {key for due in self.dues for key in (due.payer, due.payee)}
        return decided | (self.held.accounts() if self.held else set())


class Commit(NamedTuple):
    """What one commit did: how many left the queue, and what was settled, in order.

    What the database settled itself is in `held`, and not one by one: few ask for that.
    """

    left: int
    at: datetime = LONG_AGO
    dues: Sequence[DuePayment] = ()
    results: Sequence[SettlementResult] = ()
    # The original due instants of payments that were tried before.
    first_due: Mapping[UUID, datetime] = MappingProxyType({})
    held: HeldPayments | None = None
    seconds: float = 0.0
    # From when the database began to lock accounts, by the monotonic clock, until the commit.
    paying_since: float = 0.0
    locked_seconds: float = 0.0

    def one_by_one(self) -> "Commit":
        """Return the same commit with every payment and its result."""
        if self.held is None:
            return self
        dues = dues_of(self.held)
        return self._replace(dues=dues, results=[_PAID] * len(dues), held=None)


def write_lines(commit: Commit) -> None:
    """Log the results of payments, if that is turned on."""
    if items.is_enabled("settled"):
        commit = commit.one_by_one()
        _write(commit, "payment.completed", TransferCompleted | Paid)
    if items.is_enabled("failed"):
        _write(commit, "payment.failed", TransferFailed)
        _write(commit, "payment.retried", RetryLater)


def _write(commit: Commit, name: str, kind: Any) -> None:
    decided = zip(commit.dues, commit.results, strict=True)
    some = [pair for pair in decided if isinstance(pair[1], kind)]
    items.write(name, some, lambda settled: _fields(*settled, commit))


def _fields(due: DuePayment, result: SettlementResult, commit: Commit) -> dict[str, Any]:
    was_due = commit.first_due.get(due.payment_id, due.due_at)
    line = {
        "tenant_id": due.payer.tenant_id,
        "payment_id": str(due.payment_id),
        "execution_id": execution_name(due.payment_id, due.token + 1),
        "scheduled_time": instant_text(was_due),
        "lateness_ms": round((commit.at - was_due).total_seconds() * 1000),
    }
    if isinstance(result, TransferFailed | RetryLater):
        line["code"] = str(result.reason)
    return line
