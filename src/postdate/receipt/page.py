"""Receipts to download: of a payment, of a job."""

from typing import Final, Literal

import msgspec
from starlette.responses import Response

from postdate.console.page_request import HEADERS, ConsolePage, PageRequest
from postdate.core.identity import Scope
from postdate.http.endpoint import existing


async def payment_receipt(request: PageRequest) -> Response:
    """Download the receipt of a payment."""
    payment_id = request.uuid("payment_id")
    found = await request.services.payment.read.find(request.actor, payment_id)
    existing(found, "payment", payment_id)
    return await _receipt(request, "payment")


async def job_receipt(request: PageRequest) -> Response:
    """Download the receipt of a job."""
    job_id = request.uuid("job_id")
    tenant_id = request.actor.tenant_id
    existing(await request.services.job.read.find(tenant_id, job_id), "job", job_id)
    return await _receipt(request, "job")


async def _receipt(request: PageRequest, kind: Literal["job", "payment"]) -> Response:
    subject = request.uuid(f"{kind}_id")
    issued = await request.services.receipt.issue(request.actor, kind, subject)
    headers = {**HEADERS, "content-disposition": f'attachment; filename="receipt-{subject}.json"'}
    return Response(msgspec.json.encode(issued), media_type="application/json", headers=headers)


PAGES: Final = (
    ConsolePage(
        "/payments/{payment_id:uuid}/receipt",
        payment_receipt,
        Scope.PAYMENTS_READ,
        limited="filtered",
    ),
    ConsolePage("/jobs/{job_id:uuid}/receipt", job_receipt, Scope.JOBS_READ),
)
