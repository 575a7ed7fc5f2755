"""Payments: the list with its filters, as a table or as a file, and one with what moved."""

from typing import Final
from uuid import UUID

import msgspec
from starlette.responses import Response

from postdate.console.export import as_it_is, send_file
from postdate.console.page_request import ConsolePage, PageRequest, instant
from postdate.core.identity import Scope
from postdate.core.ids import MAX_ID, MIN_ID
from postdate.core.status import PaymentStatus
from postdate.event.page.timeline import payment_timeline
from postdate.http.endpoint import existing
from postdate.payment.view.payment import PaymentFilter
from postdate.payment.view.payment_shape import PaymentView

PAGE: Final = 50
MAX_EVENTS: Final = 100
FUNDING: Final = {"hold": "held", "at_execution": "when due"}
COLUMNS: Final = (
    "payment_id",
    "status",
    "from_account_id",
    "to_account_id",
    "amount",
    "currency",
    "scheduled_time",
    "created_at",
    "executed_at",
    "lateness_ms",
    "funding",
    "error_code",
    "description",
    "transfer_id",
    "schedule_id",
)


class PaymentFilters(msgspec.Struct, frozen=True, kw_only=True):
    """The address of a list of payments."""

    account: str | None = None
    status: PaymentStatus | None = None
    min_amount: str | None = msgspec.field(default=None, name="least")
    max_amount: str | None = msgspec.field(default=None, name="most")
    since: str | None = None
    until: str | None = None
    text: str | None = None
    before: UUID = MAX_ID

    @property
    def filter(self) -> PaymentFilter:
        """Return the filter alone."""
        return PaymentFilter(
            self.account,
            self.status,
            self.min_amount,
            self.max_amount,
            instant(self.since, "since"),
            instant(self.until, "until"),
            text=self.text,
        )


async def payments_page(request: PageRequest) -> Response:
    """List payments, the newest first."""
    query = request.query(PaymentFilters)
    payments, following = await request.services.payment.read.page(
        request.actor, query.filter, query.before, PAGE
    )
    return request.render(
        "payments.html",
        payments=payments,
        query=query,
        following=request.next_page(before=following),
        statuses=list(PaymentStatus),
        filtered=query.filter != PaymentFilter(),
        matching=request.filters("before"),
    )


class ApprovalFilters(msgspec.Struct, frozen=True, kw_only=True):
    """The address of the list of payments that wait for a second person."""

    after: UUID = MIN_ID


async def approvals_page(request: PageRequest) -> Response:
    """List the payments that wait for a second person, the oldest first."""
    query = request.query(ApprovalFilters)
    await request.learn_names()
    payments, following = await request.services.payment.read.waiting(
        request.actor, query.after, PAGE
    )
    return request.render(
        "approvals.html",
        payments=payments,
        following=request.next_page(after=following),
    )


async def payments_file(request: PageRequest) -> Response:
    """Return the same list as a file, the newest first."""
    query = request.query(PaymentFilters)

    async def read(before: UUID | None, limit: int) -> tuple[list[PaymentView], UUID | None]:
        start = query.before if before is None else before
        return await request.services.payment.read.page(request.actor, query.filter, start, limit)

    return await send_file(request, "payments", dict.fromkeys(COLUMNS, as_it_is), read)


async def payment_page(request: PageRequest) -> Response:
    """Show one payment: did money move, and who did what."""
    payment_id = request.uuid("payment_id")
    views = request.services.payment.read
    payment = existing(await views.find(request.actor, payment_id), "payment", payment_id)
    executions = await views.executions(request.actor, payment_id) or []
    events = await views.events(request.actor, payment_id, None, MAX_EVENTS) or []
    await request.learn_names()
    return request.render(
        "payment.html",
        payment=payment,
        legs=await views.legs(request.actor, payment),
        timeline=payment_timeline(payment, executions, events, request.now),
        events=events,
    )


PAGES: Final = (
    ConsolePage("/payments", payments_page, Scope.PAYMENTS_READ, limited="filtered"),
    ConsolePage("/approvals", approvals_page, Scope.PAYMENTS_READ, limited="filtered"),
    ConsolePage("/payments.{kind}", payments_file, Scope.PAYMENTS_READ, limited="filtered"),
    ConsolePage(
        "/payments/{payment_id:uuid}", payment_page, Scope.PAYMENTS_READ, limited="filtered"
    ),
)
