"""Payments: the list with its filters, as a table or as CSV, and one with what moved."""

import csv
import io
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Final
from uuid import UUID

import msgspec
from starlette.responses import Response, StreamingResponse

from postdate.api.http.endpoint import existing
from postdate.console.page_request import (
    HEADERS,
    ConsolePage,
    PageRequest,
    instant,
)
from postdate.model.status import PaymentStatus
from postdate.model.tenant.identity import Scope
from postdate.views.payment import NEWEST, PaymentFilter
from postdate.views.payment_shape import PaymentView

PAGE: Final = 50
MAX_EVENTS: Final = 100
CSV_PAGE: Final = 500
MAX_CSV_ROWS: Final = 100_000
"""The most rows of one file; a narrower filter gives the rest."""

COLUMNS: Final = (
    "payment_id",
    "status",
    "from_account_id",
    "to_account_id",
    "amount",
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
    min_amount: int | None = msgspec.field(default=None, name="least")
    max_amount: int | None = msgspec.field(default=None, name="most")
    since: str | None = None
    until: str | None = None
    before: UUID = NEWEST

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
        as_csv=request.address_with(before=None).replace("/payments", "/payments.csv", 1),
    )


async def payments_csv(request: PageRequest) -> Response:
    """Return the same list as a file, the newest first."""
    query = request.query(PaymentFilters)
    rows = _rows(request, query)
    # The first page is read before the answer begins: a refusal is still an answer of its own.
    first = await anext(rows)
    name = f"payments-{request.now:%Y%m%dT%H%M%SZ}.csv"
    headers = {**HEADERS, "content-disposition": f'attachment; filename="{name}"'}
    return StreamingResponse(_joined(first, rows), media_type="text/csv", headers=headers)


async def _joined(first: str, rest: AsyncIterator[str]) -> AsyncIterator[str]:
    yield first
    async for chunk in rest:
        yield chunk


async def _rows(request: PageRequest, query: PaymentFilters) -> AsyncIterator[str]:
    before: UUID | None = query.before
    head: list[tuple[str, ...]] = [COLUMNS]
    left = MAX_CSV_ROWS
    while before is not None and left > 0:
        found, before = await request.services.payment.read.page(
            request.actor, query.filter, before, min(CSV_PAGE, left)
        )
        left -= len(found)
        yield _written(head + [_row(payment) for payment in found])
        head = []


def _written(rows: list[tuple[str, ...]]) -> str:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue()


def _row(payment: PaymentView) -> tuple[str, ...]:
    return tuple(_cell(getattr(payment, name)) for name in COLUMNS)


def _cell(value: object) -> str:
    """Write a value; a text that a spreadsheet would take for a formula is quoted."""
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="milliseconds")
    text = str(value)
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


async def payment_page(request: PageRequest) -> Response:
    """Show one payment: did money move, and who did what."""
    payment_id = request.uuid("payment_id")
    views = request.services.payment.read
    payment = existing(await views.find(request.actor, payment_id), "payment", payment_id)
    return request.render(
        "payment.html",
        payment=payment,
        legs=await views.legs(request.actor, payment),
        executions=await views.executions(request.actor, payment_id) or [],
        events=await views.events(request.actor, payment_id, None, MAX_EVENTS) or [],
    )


PAGES: Final = (
    ConsolePage("/payments", payments_page, Scope.PAYMENTS_READ),
    ConsolePage("/payments.csv", payments_csv, Scope.PAYMENTS_READ),
    ConsolePage("/payments/{payment_id:uuid}", payment_page, Scope.PAYMENTS_READ),
)
