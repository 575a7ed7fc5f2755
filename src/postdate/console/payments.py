"""Payments: the list with its filters, and one with its executions and events."""

from typing import Final
from uuid import UUID

import msgspec
from starlette.responses import Response

from postdate.console.visit import Visit, further, stripped
from postdate.model.errors import Code, refuse
from postdate.model.identity import Scope
from postdate.model.state import PaymentStatus
from postdate.views.payment import NEWEST, PaymentFilter

PAGE: Final = 50
EVENTS_MOST: Final = 100


class PaymentQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The address of a list of payments."""

    account: str | None = None
    status: PaymentStatus | None = None
    before: UUID = NEWEST

    @property
    def filter(self) -> PaymentFilter:
        """Give the filter alone."""
        return PaymentFilter(self.account, self.status)


async def payments_page(visit: Visit) -> Response:
    """List payments, the newest first."""
    visit.need(Scope.PAYMENTS_READ)
    if (shorter := stripped(visit.request)) is not None:
        return shorter
    query = visit.query(PaymentQuery)
    payments, following = await visit.services.payment_views.page(
        visit.who, query.filter, query.before, PAGE
    )
    return visit.page(
        "payments.html",
        payments=payments,
        query=query,
        following=following and further(visit.request, before=following),
        statuses=list(PaymentStatus),
        filtered=query.filter != PaymentFilter(),
    )


async def payment_page(visit: Visit) -> Response:
    """Show one payment: did money move, and who did what."""
    visit.need(Scope.PAYMENTS_READ)
    payment_id = visit.uuid("payment_id")
    views = visit.services.payment_views
    payment = await views.get(visit.who, payment_id)
    if payment is None:
        raise refuse(Code.NOT_FOUND, f"There is no payment {payment_id}.")
    return visit.page(
        "payment.html",
        payment=payment,
        executions=await views.executions(visit.who, payment_id) or [],
        events=await views.events(visit.who, payment_id, None, EVENTS_MOST) or [],
    )
