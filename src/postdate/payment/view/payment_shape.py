"""The shape of a payment in every answer, derived from the rows that exist."""

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

import msgspec
from msgspec import Meta, structs

from postdate.core.field import Amount, NamedCurrency
from postdate.core.money import MINOR_UNIT
from postdate.core.shape import shaped
from postdate.core.status import PaymentStatus
from postdate.payment.spec.payment import BROKE, Funding, OnBroken
from postdate.payment.store.approval import Approval, ApprovalDecision
from postdate.payment.store.payment import PaymentRow

WaitingFor = Literal["approval", "retry", "person"]


class ApprovalView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The approval of a payment by a second person; without a decision it waits."""

    required: bool
    requested_by: str
    requested_at: datetime
    expires_at: datetime
    decision: ApprovalDecision | None = None
    decided_by: str | None = None
    decided_at: datetime | None = None
    note: str | None = None


class BrokenView(msgspec.Struct, frozen=True, kw_only=True):
    """Why a payment needs a decision: settlement failed and the retries are used up."""

    code: str
    error: str
    attempts: int
    since: datetime
    amount_held: Amount


class PaymentView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A payment; a field that does not apply yet is absent."""

    payment_id: UUID
    from_account_id: str
    to_account_id: str
    amount: Amount
    scheduled_time: datetime
    status: PaymentStatus
    funding: Funding
    created_at: datetime
    currency: NamedCurrency = None
    description: str | None = None
    retry_until: datetime | None = None
    executed_at: datetime | None = None
    cancelled_at: datetime | None = None
    first_due_at: Annotated[
        datetime | None,
        Meta(description="The original due instant, if retries have moved `scheduled_time`."),
    ] = None
    lateness_ms: Annotated[
        int | None, Meta(description="From the first due instant until it was executed.")
    ] = None
    waiting_for: Annotated[
        WaitingFor | None,
        Meta(description="What an open payment waits for, apart from its due instant."),
    ] = None
    broken: BrokenView | None = None
    on_broken: OnBroken | None = None
    error_code: str | None = None
    error_message: str | None = None
    transfer_id: UUID | None = None
    schedule_id: UUID | None = None
    refund_of: Annotated[UUID | None, Meta(description="The payment that this one pays back.")] = (
        None
    )
    refunded: Annotated[
        int | None,
        Meta(
            description=f"How much its refunds return or have returned, {MINOR_UNIT}; only where "
            "one payment is shown, and absent if there are none."
        ),
    ] = None
    approval: ApprovalView | None = None


def approval_view(approval: Approval) -> ApprovalView:
    """Show an approval."""
    return ApprovalView(required=True, **structs.asdict(approval))


def view(row: PaymentRow) -> PaymentView:
    """Derive the view of a payment from the rows that exist."""
    status = status_of(row)
    executed = status in {PaymentStatus.COMPLETED, PaymentStatus.FAILED}
    finished_at = row.finished_at
    # The current due instant: rescheduling and retries move it.
    due_at = row.outcome_due_at or row.timer_due_at or row.attempt_due_at or row.due_at
    first_due_at = row.first_due_at or due_at
    return shaped(
        PaymentView,
        row,
        from_account_id=row.from_account,
        to_account_id=row.to_account,
        scheduled_time=due_at,
        status=status,
        funding="hold" if row.hold else "at_execution",
        executed_at=finished_at if executed else None,
        cancelled_at=finished_at if status is PaymentStatus.CANCELLED else None,
        first_due_at=first_due_at if first_due_at != due_at else None,
        lateness_ms=_milliseconds(first_due_at, finished_at) if executed and finished_at else None,
        waiting_for=_waiting_for(row),
        broken=_broken(row) if row.parked else None,
        error_code=row.code,
        error_message=row.error,
        refunded=row.refunded or None,
        approval=None if row.approval is None else approval_view(row.approval),
    )


def status_of(row: PaymentRow) -> PaymentStatus:
    """Return the status of a payment; one without timer and outcome is found by reconciling."""
    if row.status is not None:
        return PaymentStatus(row.status)
    return PaymentStatus.EXECUTING if row.parked else PaymentStatus.PENDING


def _waiting_for(row: PaymentRow) -> WaitingFor | None:
    if row.status is not None:
        return None
    if row.parked:
        return "person"
    if row.approval is not None and row.approval.decision is None:
        return "approval"
    return "retry" if row.code is not None else None


def _broken(row: PaymentRow) -> BrokenView | None:
    """Return why a payment that needs a decision could not be settled."""
    if row.attempted_at is None:
        return None
    return BrokenView(
        code=row.code or BROKE,
        error=row.error or "",
        attempts=row.attempts or 0,
        since=row.attempted_at,
        amount_held=row.amount if row.hold else 0,
    )


def _milliseconds(start: datetime, end: datetime) -> int:
    return round((end - start).total_seconds() * 1000)
