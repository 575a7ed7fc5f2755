"""Decide on a group of payments, and write the accepted ones in one statement."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from uuid import UUID

from postdate.account.store.account import Account, AccountKey, Hold
from postdate.core.money import money_text
from postdate.database.connection.database import Connection
from postdate.database.connection.driver_id import new_ids, tailed_id
from postdate.intake.pipeline import AcceptGroup
from postdate.intake.store import IdempotencyKey, IdempotencyRow, id_tail
from postdate.ledger.hold import admit
from postdate.payment.accept.request import (
    AcceptedPayment,
    CheckedPayment,
    NeedsApproval,
    RefundedPayment,
    Scheduled,
)
from postdate.payment.spec.payment import due
from postdate.payment.store import approval as approval_store
from postdate.payment.store import payment as payment_store
from postdate.payment.store.approval import ApprovalRequest
from postdate.payment.store.payment import NewPayment
from postdate.tenant.spec.quota import Quotas
from postdate.words.error import Code, Refusal


class PaymentGroup(AcceptGroup[CheckedPayment, AcceptedPayment]):
    """The rows of a group, filled item by item so that its size changes no result."""

    remembers_refusals = True

    def __init__(
        self,
        now: datetime,
        known: Mapping[IdempotencyKey, IdempotencyRow],
        accounts: Mapping[AccountKey, Account],
        quotas: Quotas,
        unix_ms: int,
        refundable: Mapping[UUID, int],
    ) -> None:
        super().__init__(now, known)
        self._accounts = accounts
        self._quotas = quotas
        self._unix_ms = unix_ms
        self._refundable = dict(refundable)
        self._ids: list[UUID] = []
        self._holds: Counter[AccountKey] = Counter()
        self._payments: list[NewPayment] = []
        self._approvals: list[ApprovalRequest] = []

    def begin(self, items: Sequence[CheckedPayment | Refusal]) -> None:
        """Generate the ids of payments without a key, which schedules create."""
        if any(not isinstance(each, Refusal) and each.keyed is None for each in items):
            buckets = [0 if isinstance(each, Refusal) else each.payer.bucket for each in items]
            self._ids = new_ids(buckets, self._unix_ms)

    def limit(self, item: CheckedPayment) -> Refusal | None:
        """Refuse a payment beyond its tenant's quota, unless a schedule creates it."""
        if item.occurrence is not None:
            return None
        return self._quotas.check_room(item.payer.tenant_id, "payments")

    def decide(self, number: int, item: CheckedPayment) -> AcceptedPayment | Refusal:
        """Accept or refuse one payment, seeing what those before it have reserved."""
        due_at: datetime | Refusal
        if item.occurrence is None:
            due_at = due(item.order, self.now, item.max_delay_seconds)
        else:
            due_at = item.occurrence.due_at
        if isinstance(due_at, Refusal):
            return due_at
        payer, payee = self._accounts.get(item.payer), self._accounts.get(item.payee)
        refusal = None if item.refunds is None else self._above_paid(item, item.refunds)
        refusal = refusal or admit(item.order, payer, payee, item.limits)
        if refusal is not None:
            return refusal
        if item.keyed is None:
            payment_id = self._ids[number]
        else:
            tail = id_tail(item.keyed.key, item.keyed.fingerprint)
            payment_id = tailed_id(item.payer.bucket, self._unix_ms, tail)
        return self._accept(item, due_at, payment_id)

    def _above_paid(self, item: CheckedPayment, refunds: RefundedPayment) -> Refusal | None:
        """Refuse a refund of more than what is left of the payment."""
        left = self._refundable[refunds.payment_id]
        if item.order.amount <= left:
            return None
        payer = self._accounts.get(item.payer)
        currency = payer.currency if payer else None
        return Refusal(
            Code.REFUND_ABOVE_PAID,
            f"{money_text(left, currency)} of the {money_text(refunds.paid, currency)} "
            "that were paid can still be refunded.",
            "amount",
            extra={"refundable": left},
        )

    def _accept(self, item: CheckedPayment, due_at: datetime, payment_id: UUID) -> AcceptedPayment:
        if item.holds:
            self._holds[item.payer] += item.order.amount
        if item.refunds is not None:
            self._refundable[item.refunds.payment_id] -= item.order.amount
        if item.occurrence is None and self._quotas.limits(item.payer.tenant_id, "payments"):
            self._quotas.count(item.payer.tenant_id, "payments")
        self._payments.append(_payment(item, due_at, payment_id))
        if item.approval_seconds is None:
            return AcceptedPayment(Scheduled(payment_id, due_at))
        self.one_statement = False
        occurrence = item.occurrence
        self._approvals.append(
            ApprovalRequest(
                item.payer.bucket,
                item.payer.tenant_id,
                payment_id,
                item.actor,
                item.persons,
                None if occurrence is None else occurrence.schedule_id,
                None if occurrence is None else occurrence.version,
                item.approval_seconds,
            )
        )
        return AcceptedPayment(Scheduled(payment_id, due_at, approval=NeedsApproval()))

    async def write(self, connection: Connection) -> None:
        """Write payments, timers and addresses in the outbox; then the holds, and the keys last.

        No request waits for payers before the holds are written. The account's CHECK ensures that
        the money is there; everything else about a payer is compared with what was read.
        """
        payments = self._payments
        if self._approvals:
            await payment_store.accept(connection, payments)
            await approval_store.request(connection, self._approvals)
            payments = []
        if payments or self._holds or self.keys:
            held = ((self._accounts[key], amount) for key, amount in sorted(self._holds.items()))
            holds = [
                Hold(a.bucket, a.tenant_id, a.account_id, amount, a.floor, a.max_amount)
                for a, amount in held
            ]
            await payment_store.accept(connection, payments, holds, self.keys)


def _payment(item: CheckedPayment, due_at: datetime, payment_id: UUID) -> NewPayment:
    order, occurrence, (bucket, tenant_id, _) = item.order, item.occurrence, item.payer
    return NewPayment(
        bucket,
        tenant_id,
        payment_id,
        order.from_account_id,
        order.to_account_id,
        order.amount,
        due_at,
        item.holds,
        order.retry_until if occurrence is None else occurrence.retry_until,
        order.description,
        None if occurrence is None else occurrence.schedule_id,
        item.traceparent,
        order.on_broken,
        item.actor,
        None if item.keyed is None else item.keyed.key.hash,
        None if item.refunds is None else item.refunds.payment_id,
    )
