"""Payments: cancel, reschedule, refund, and execute a due one."""

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from postdate.api.services import Services
from postdate.core.field import Instant
from postdate.core.identity import Scope
from postdate.core.money import MAX_AMOUNT
from postdate.core.status import PaymentStatus
from postdate.http.endpoint import Body, Call, Reply
from postdate.http.routes import Routes
from postdate.intake.answer_once import reply
from postdate.payment.accept.request import Scheduled
from postdate.payment.change.execution import Executed
from postdate.payment.change.refund import RefundRequest
from postdate.payment.spec.payment import DESCRIPTION_CHARS, PaymentDelay, When
from postdate.words.error import Code

ROUTES: Final = Routes("payments")


class RescheduleBody(Body, kw_only=True):
    """The new time: one of the two."""

    delay_seconds: Annotated[
        PaymentDelay | None, Meta(description="Seconds from now, by the database's clock.")
    ] = None
    scheduled_time: Annotated[Instant | None, Meta(description="The new due instant.")] = None


class RefundBody(Body, kw_only=True):
    """How much to pay back."""

    amount: Annotated[
        Annotated[int, Meta(ge=1, le=MAX_AMOUNT)] | None,
        Meta(description="The whole amount of the payment if absent."),
    ] = None
    description: Annotated[
        Annotated[str, Meta(max_length=DESCRIPTION_CHARS)] | None, Meta(description="Free text.")
    ] = None


class ExecuteBody(Body, kw_only=True):
    """The caller's name for this execution."""

    execution_id: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=255,
            pattern=r"^[!-~]+$(?!\n)",
            description="Printable characters without spaces.",
        ),
    ]


class CancelledPayment(msgspec.Struct, frozen=True):
    """The payment will not happen; its hold is released."""

    success: bool = True
    status: PaymentStatus = PaymentStatus.CANCELLED


@ROUTES.add(
    "DELETE",
    "/payments/{payment_id:uuid}/cancel",
    Scope.PAYMENTS_WRITE,
    errors=(Code.PAYMENT_NOT_PENDING,),
    limited="filtered",
)
async def cancel_payment(call: Call[Services, None, None]) -> CancelledPayment:
    """Cancel a pending payment.

    Wins if and only if it ends the payment's timer before a settlement does; otherwise the answer
    is 409 with the payment's status.
    """
    await call.services.payment.change.cancel(call.actor, call.uuid("payment_id"))
    return CancelledPayment()


@ROUTES.add(
    "PATCH",
    "/payments/{payment_id:uuid}",
    Scope.PAYMENTS_WRITE,
    errors=(Code.PAYMENT_NOT_PENDING, Code.TIME_OUT_OF_RANGE),
    limited="filtered",
)
async def reschedule_payment(call: Call[Services, RescheduleBody, None]) -> Scheduled:
    """Reschedule a payment.

    The hold stays. A payment that waits for a person (a dead letter) is retried at the new time.
    """
    when = When(call.body.delay_seconds, call.body.scheduled_time)
    changes = call.services.payment.change
    return await changes.reschedule(call.actor, call.uuid("payment_id"), when)


@ROUTES.add(
    "POST",
    "/payments/{payment_id:uuid}/refund",
    Scope.PAYMENTS_WRITE,
    returns=Scheduled,
    halted="new work",
    status=201,
    errors=(
        Code.PAYMENT_NOT_REFUNDABLE,
        Code.REFUND_ABOVE_PAID,
        Code.UNKNOWN_ACCOUNT,
        Code.ACCOUNT_FROZEN,
        Code.ACCOUNT_CLOSED,
        Code.AMOUNT_ABOVE_LIMIT,
        Code.INSUFFICIENT_FUNDS,
        Code.QUOTA_EXCEEDED,
        Code.COMMITS_NOT_DURABLE,
    ),
    idempotency="required",
    limited="filtered",
)
async def refund_payment(call: Call[Services, RefundBody, None]) -> Reply:
    """Refund a completed payment.

    Schedules a payment from its payee back to its payer, due in a second; the amount is held now.
    All refunds of a payment together never exceed what was paid.
    """
    wanted = RefundRequest(
        payment_id=call.uuid("payment_id"),
        key=call.idempotency_key or "",
        amount=call.body.amount,
        description=call.body.description,
        traceparent=call.traceparent,
    )
    return reply(await call.services.payment.refund.refund(call.actor, wanted), call.request_id)


@ROUTES.add(
    "POST",
    "/internal/payments/{payment_id:uuid}/execute",
    "internal",
    errors=(
        Code.PAYMENT_NOT_PENDING,
        Code.NOT_DUE,
        Code.APPROVAL_MISSING,
        Code.SETTLEMENT_STOPPED,
    ),
)
async def execute_payment(call: Call[Services, ExecuteBody, None]) -> Executed:
    """Settle a due payment now.

    A payment moves money once, no matter how often and with which `execution_id` this is called.
    `success` is false where this execution failed the payment, for example for lack of money; a
    payment that ended in another way before is refused.
    """
    executions = call.services.payment.execution
    return await executions.execute(call.uuid("payment_id"), call.body.execution_id)
