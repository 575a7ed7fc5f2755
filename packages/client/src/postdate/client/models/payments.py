"""Models of payments. Written by `make docs` from the endpoints."""

from datetime import datetime, timedelta
from typing import Any, Literal, Required, TypedDict

from msgspec import Struct

from postdate.client.models.shared import Payment, PaymentStatus, Problem


class RetryUntilParams(TypedDict, total=False):
    """Retry while the payer does not have enough.

    `retry_until`: When to give up.
    """

    retry_until: Required[datetime]


class NeedsApproval(Struct, frozen=True, kw_only=True):
    """A second person must approve the payment before it is settled."""

    required: bool = True


class ScheduledPayment(Struct, frozen=True, kw_only=True):
    """The answer to a payment that was accepted."""

    payment_id: str
    scheduled_time: datetime
    status: PaymentStatus = PaymentStatus.PENDING
    approval: NeedsApproval | None = None


class BatchPaymentParams(TypedDict, total=False):
    """One payment of a batch, with its own key.

    `from_account_id`: Who pays.
    `to_account_id`: Who is paid.
    `amount`: The amount, in the currency's minor unit (2500 is 25.00 EUR), within the limits of
    tenant and payer.
    `delay_seconds`: Delay after the payment is accepted, by the database's clock.
    `scheduled_time`: Due then.
    `description`: Free text.
    `funding`: Hold the amount now, or take it when the payment is due.
    `on_insufficient`: With `at_execution`: what to do if the payer does not have enough.
    `on_broken`: When settling breaks for good, for a reason that is not about money: keep the
    amount held and wait for a person, or release it and fail. Without it, the setting
    `payment.on_broken` decides at that moment.
    `idempotency_key`: As in the Idempotency-Key header.
    """

    from_account_id: Required[str]
    to_account_id: Required[str]
    amount: Required[int]
    delay_seconds: int | timedelta | None
    scheduled_time: datetime | None
    description: str | None
    funding: Literal["at_execution", "hold"]
    on_insufficient: Literal["fail"] | RetryUntilParams
    on_broken: Literal["hold", "release"] | None
    idempotency_key: str


class PaymentOutcome(Struct, frozen=True, kw_only=True):
    """The outcome of one item: a payment, or a problem."""

    status: int
    """What a single request would have answered."""
    payment: ScheduledPayment | None = None
    problem: Problem | None = None
    replayed: bool = False
    """Whether this is a stored answer to the key."""


class PaymentOutcomes(Struct, frozen=True, kw_only=True):
    """One outcome for each item, in the order of the request."""

    accepted: int
    """How many were accepted."""
    refused: int
    """How many were refused."""
    outcomes: list[PaymentOutcome]


class PaymentList(Struct, frozen=True, kw_only=True):
    """A page of payments, the newest first."""

    payments: list[Payment]
    next_cursor: str | None


class Execution(Struct, frozen=True, kw_only=True):
    """One execution of a payment; `attempt` counts from 1."""

    execution_id: str
    attempt: int
    status: str
    scheduled_time: datetime
    started_at: datetime | None = None
    finished_at: datetime
    retry_at: datetime | None = None
    error_code: str | None = None
    error_message: str | None = None


class ExecutionList(Struct, frozen=True, kw_only=True):
    """Every execution of a payment, in order."""

    executions: list[Execution]


class PaymentEvent(Struct, frozen=True, kw_only=True):
    """An event of a payment."""

    id: str
    type: str
    time: datetime
    actor: str | None
    data: dict[str, Any] | None


class PaymentEventList(Struct, frozen=True, kw_only=True):
    """What happened to a payment, in order."""

    events: list[PaymentEvent]
    next_cursor: str | None


class CancelledPayment(Struct, frozen=True, kw_only=True):
    """The payment will not happen; its hold is released."""

    success: bool = True
    status: PaymentStatus = PaymentStatus.CANCELLED


class ExecutedPayment(Struct, frozen=True, kw_only=True):
    """How an execution ended: the payment is settled, by it or before it, or it failed here."""

    success: bool
    execution_id: str
    status: PaymentStatus
    settled_by_execution_id: str
    transfer_id: str | None = None
    error_message: str | None = None


class ApprovalList(Struct, frozen=True, kw_only=True):
    """A page of payments that wait, the oldest first."""

    payments: list[Payment]
    next_cursor: str | None
