"""Approvals: a second person decides on large payments."""

from typing import Annotated, Final
from uuid import UUID

import msgspec
from msgspec import Meta

from postdate.api.services import Services
from postdate.core.identity import Scope
from postdate.http.endpoint import Body, Call
from postdate.http.page import PageQuery, next_cursor
from postdate.http.routes import Routes
from postdate.payment.view.payment_shape import ApprovalView, PaymentView, approval_view
from postdate.words.error import Code

ROUTES: Final = Routes("payments")

FIRST: Final = UUID(int=0)


class DecisionBody(Body, kw_only=True):
    """What to say about it."""

    note: Annotated[str, Meta(min_length=1, max_length=500)] | None = None


class WaitingList(msgspec.Struct, frozen=True, kw_only=True):
    """A page of payments that wait, the oldest first."""

    payments: list[PaymentView]
    next_cursor: str | None


@ROUTES.add("GET", "/approvals", Scope.PAYMENTS_APPROVE, limited="filtered")
async def list_approvals(call: Call[Services, None, PageQuery]) -> WaitingList:
    """List the payments that wait for approval.

    The oldest first; a payment that is not approved in time fails.
    """
    after = call.query.start(UUID, FIRST)
    found, following = await call.services.payment.read.waiting(call.actor, after, call.query.limit)
    return WaitingList(payments=found, next_cursor=next_cursor(following))


@ROUTES.add(
    "POST",
    "/payments/{payment_id:uuid}/approve",
    Scope.PAYMENTS_APPROVE,
    errors=(Code.PAYMENT_NOT_PENDING, Code.APPROVAL_BY_REQUESTER),
    limited="filtered",
)
async def approve_payment(call: Call[Services, DecisionBody, None]) -> ApprovalView:
    """Approve a payment that another key has scheduled.

    It is settled when it is due, or immediately if it is overdue.
    """
    approvals = call.services.payment.approval
    note = call.body.note
    return approval_view(await approvals.approve(call.actor, call.uuid("payment_id"), note))


@ROUTES.add(
    "POST",
    "/payments/{payment_id:uuid}/refuse",
    Scope.PAYMENTS_APPROVE,
    errors=(Code.PAYMENT_NOT_PENDING, Code.APPROVAL_BY_REQUESTER),
    limited="filtered",
)
async def refuse_payment(call: Call[Services, DecisionBody, None]) -> ApprovalView:
    """Refuse a payment that waits; its hold is released.

    The payment ends as CANCELLED. The requester cannot decide on it.
    """
    approvals = call.services.payment.approval
    note = call.body.note
    return approval_view(await approvals.refuse(call.actor, call.uuid("payment_id"), note))
