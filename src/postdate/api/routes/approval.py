"""Approvals: a second person decides on large payments."""

from typing import Annotated, Final
from uuid import UUID

import msgspec
from msgspec import Meta

from postdate.api.http.endpoint import AnyEndpoint, Body, Call, Endpoint
from postdate.api.http.page import PageQuery, next_cursor
from postdate.api.services import Services
from postdate.model.error import Code
from postdate.model.tenant.identity import Scope
from postdate.views.payment_shape import ApprovalView, PaymentView, approval_view

FIRST: Final = UUID(int=0)


class DecisionBody(Body, kw_only=True):
    """What to say about it."""

    note: Annotated[str, Meta(min_length=1, max_length=500)] | None = None


class WaitingList(msgspec.Struct, frozen=True, kw_only=True):
    """A page of payments that wait, the oldest first."""

    payments: list[PaymentView]
    next_cursor: str | None


async def list_approvals(call: Call[Services, None, PageQuery]) -> WaitingList:
    """Answer with what waits for a second person."""
    after = call.query.start(UUID, FIRST)
    found, following = await call.services.payment.read.waiting(call.actor, after, call.query.limit)
    return WaitingList(payments=found, next_cursor=next_cursor(following))


async def approve_payment(call: Call[Services, DecisionBody, None]) -> ApprovalView:
    """Approve a payment."""
    approvals = call.services.payment.approval
    note = call.body.note
    return approval_view(await approvals.approve(call.actor, call.uuid("payment_id"), note))


async def refuse_payment(call: Call[Services, DecisionBody, None]) -> ApprovalView:
    """Refuse a payment."""
    approvals = call.services.payment.approval
    note = call.body.note
    return approval_view(await approvals.refuse(call.actor, call.uuid("payment_id"), note))


ENDPOINTS: Final[list[AnyEndpoint]] = [
    Endpoint(
        method="GET",
        path="/approvals",
        handler=list_approvals,
        scope=Scope.PAYMENTS_APPROVE,
        query=PageQuery,
        returns=WaitingList,
        summary="List the payments that wait for a second person",
        description="The oldest first; an approval that is not given in time lets the payment "
        "expire.",
        tag="payments",
    ),
    Endpoint(
        method="POST",
        path="/payments/{payment_id:uuid}/approve",
        handler=approve_payment,
        scope=Scope.PAYMENTS_APPROVE,
        body=DecisionBody,
        returns=ApprovalView,
        summary="Approve a payment that another key has scheduled",
        description="It is settled at its instant, or at once if that has passed.",
        errors=(Code.CONFLICT, Code.PAYMENT_NOT_PENDING, Code.APPROVAL_BY_REQUESTER),
        tag="payments",
    ),
    Endpoint(
        method="POST",
        path="/payments/{payment_id:uuid}/refuse",
        handler=refuse_payment,
        scope=Scope.PAYMENTS_APPROVE,
        body=DecisionBody,
        returns=ApprovalView,
        summary="Refuse a payment that waits; its hold is released",
        description="The payment ends as CANCELLED. Whoever asked for it cannot decide on it.",
        errors=(Code.CONFLICT, Code.PAYMENT_NOT_PENDING, Code.APPROVAL_BY_REQUESTER),
        tag="payments",
    ),
]
