"""A payment in the pipeline: requested, validated and accepted."""

from datetime import datetime
from uuid import UUID

import msgspec

from postdate.account.store.account import AccountKey
from postdate.core.status import PaymentStatus
from postdate.intake.idempotency import CREATED, KeyedRequest
from postdate.payment.spec.payment import AmountLimits, PaymentOrder


class RefundedPayment(msgspec.Struct, frozen=True):
    """The completed payment that a refund pays back, and how much was paid."""

    payment_id: UUID
    paid: int


class PaymentRequest(msgspec.Struct, frozen=True):
    """An order with the client's key for it, and the trace that it belongs to."""

    order: PaymentOrder
    key: str
    traceparent: str | None = None
    refunds: RefundedPayment | None = None


class PaymentOccurrence(msgspec.Struct, frozen=True):
    """The occurrence of a schedule that becomes a payment: the schedule decides when it is due."""

    schedule_id: UUID
    version: int
    due_at: datetime
    retry_until: datetime | None


class CheckedPayment(msgspec.Struct, frozen=True, kw_only=True):
    """A valid order, with the accounts it concerns and the limits that hold for it."""

    order: PaymentOrder
    payer: AccountKey
    payee: AccountKey
    actor: str
    persons: frozenset[str]
    limits: AmountLimits
    max_delay_seconds: int = 0
    approval_seconds: float | None = None
    traceparent: str | None = None
    occurrence: PaymentOccurrence | None = None
    keyed: KeyedRequest | None = None
    refunds: RefundedPayment | None = None

    @property
    def holds(self) -> bool:
        """Return whether money is reserved now."""
        return self.order.funding == "hold"


class NeedsApproval(msgspec.Struct, frozen=True):
    """A second person must approve the payment before it is settled."""

    required: bool = True


class Scheduled(msgspec.Struct, frozen=True):
    """The answer to a payment that was accepted."""

    payment_id: UUID
    scheduled_time: datetime
    status: PaymentStatus = PaymentStatus.PENDING
    approval: NeedsApproval | msgspec.UnsetType = msgspec.UNSET


class AcceptedPayment(msgspec.Struct, frozen=True):
    """A payment that was accepted."""

    body: Scheduled
    replayed: bool = False
    status: int = CREATED

    @property
    def subject(self) -> UUID:
        """Return the payment's id."""
        return self.body.payment_id
