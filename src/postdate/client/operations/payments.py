"""Operations of payments. Written by `make docs` from the endpoints."""

from typing import Final

from postdate.client.models.payments import (
    ApprovalList,
    CancelledPayment,
    ExecutedPayment,
    ExecutionList,
    PaymentEventList,
    PaymentList,
    PaymentOutcomes,
    ScheduledPayment,
)
from postdate.client.models.shared import Approval, Payment
from postdate.client.operation import Operation

SCHEDULE_PAYMENT: Final = Operation(
    "schedule_payment", "POST", "/payments/schedule", ScheduledPayment, keyed=True
)
SCHEDULE_PAYMENTS: Final = Operation(
    "schedule_payments", "POST", "/payments/batch", PaymentOutcomes, batch="payments"
)
LIST_PAYMENTS: Final = Operation("list_payments", "GET", "/payments", PaymentList)
GET_PAYMENT: Final = Operation("get_payment", "GET", "/payments/{payment_id}", Payment)
LIST_PAYMENT_EXECUTIONS: Final = Operation(
    "list_payment_executions", "GET", "/payments/{payment_id}/executions", ExecutionList
)
LIST_PAYMENT_EVENTS: Final = Operation(
    "list_payment_events", "GET", "/payments/{payment_id}/events", PaymentEventList
)
CANCEL_PAYMENT: Final = Operation(
    "cancel_payment", "DELETE", "/payments/{payment_id}/cancel", CancelledPayment
)
RESCHEDULE_PAYMENT: Final = Operation(
    "reschedule_payment", "PATCH", "/payments/{payment_id}", ScheduledPayment
)
EXECUTE_PAYMENT: Final = Operation(
    "execute_payment",
    "POST",
    "/internal/payments/{payment_id}/execute",
    ExecutedPayment,
    internal=True,
)
LIST_APPROVALS: Final = Operation("list_approvals", "GET", "/approvals", ApprovalList)
APPROVE_PAYMENT: Final = Operation(
    "approve_payment", "POST", "/payments/{payment_id}/approve", Approval
)
REFUSE_PAYMENT: Final = Operation(
    "refuse_payment", "POST", "/payments/{payment_id}/refuse", Approval
)
