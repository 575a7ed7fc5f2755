"""Payments: cancel, reschedule, and execute a due one."""

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from postdate.api.http.endpoint import AnyEndpoint, Body, Call, Endpoint
from postdate.api.services import Services
from postdate.intake.payment.execution import Executed
from postdate.intake.payment.request import Scheduled
from postdate.model.error import Code
from postdate.model.payment.payment import Delay, Instant, When
from postdate.model.status import PaymentStatus
from postdate.model.tenant.identity import Scope


class RescheduleBody(Body, kw_only=True):
    """The new time: one of the two."""

    delay_seconds: Annotated[
        Delay | None, Meta(description="Due so long from now, by the database's clock.")
    ] = None
    scheduled_time: Annotated[Instant | None, Meta(description="Due then.")] = None


class ExecuteBody(Body, kw_only=True):
    """The caller's name for this execution."""

    execution_id: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=255,
            pattern=r"^[!-~]+$(?!\n)",
            description="Printable, no space.",
        ),
    ]


class CancelledPayment(msgspec.Struct, frozen=True):
    """The payment will not happen; its hold is released."""

    success: bool = True
    status: PaymentStatus = PaymentStatus.CANCELLED


async def cancel_payment(call: Call[Services, None, None]) -> CancelledPayment:
    """Cancel a payment."""
    await call.services.payment.change.cancel(call.actor, call.uuid("payment_id"))
    return CancelledPayment()


async def reschedule_payment(call: Call[Services, RescheduleBody, None]) -> Scheduled:
    """Move a payment."""
    when = When(call.body.delay_seconds, call.body.scheduled_time)
    changes = call.services.payment.change
    return await changes.reschedule(call.actor, call.uuid("payment_id"), when)


async def execute_payment(call: Call[Services, ExecuteBody, None]) -> Executed:
    """Settle a due payment now."""
    executions = call.services.payment.execution
    return await executions.execute(call.uuid("payment_id"), call.body.execution_id)


ENDPOINTS: Final[list[AnyEndpoint]] = [
    Endpoint(
        method="DELETE",
        path="/payments/{payment_id:uuid}/cancel",
        handler=cancel_payment,
        scope=Scope.PAYMENTS_WRITE,
        returns=CancelledPayment,
        summary="Cancel a payment that has not happened",
        description="Wins if and only if it ends the payment's timer before a settlement does; "
        "otherwise the answer is 409 with the status that was reached.",
        errors=(Code.PAYMENT_NOT_PENDING,),
        tag="payments",
    ),
    Endpoint(
        method="PATCH",
        path="/payments/{payment_id:uuid}",
        handler=reschedule_payment,
        scope=Scope.PAYMENTS_WRITE,
        body=RescheduleBody,
        returns=Scheduled,
        summary="Give a payment another time",
        description="The hold stays. A payment that waits for a person (a dead letter) is tried "
        "again at the new time.",
        errors=(Code.PAYMENT_NOT_PENDING, Code.TIME_OUT_OF_RANGE),
        tag="payments",
    ),
    Endpoint(
        method="POST",
        path="/internal/payments/{payment_id:uuid}/execute",
        handler=execute_payment,
        scope="internal",
        body=ExecuteBody,
        returns=Executed,
        summary="Settle a due payment now",
        description="The same payment moves money once, however often and under whatever "
        "`execution_id` this is called.",
        errors=(
            Code.PAYMENT_NOT_PENDING,
            Code.NOT_DUE,
            Code.APPROVAL_MISSING,
            Code.TENANT_HALTED,
        ),
        tag="payments",
    ),
]
