"""Dead letters, and what waits for the decision of a person."""

from typing import Final

from starlette.responses import Response

from postdate.console.frame import sees_whole
from postdate.console.page_request import ConsolePage, PageRequest
from postdate.core.identity import Scope
from postdate.core.ids import MAX_ID, MIN_ID
from postdate.core.status import JobStatus, PaymentStatus
from postdate.job.spec.view import JobView
from postdate.job.view import JobFilter
from postdate.payment.view.payment import PaymentFilter
from postdate.payment.view.payment_shape import PaymentView

SHOWN: Final = 20
"""How many of each kind; the rest is one link away."""


async def dead_letters_page(request: PageRequest) -> Response:
    """Show failed jobs by error and destination, and the newest of them."""
    overview = None
    if sees_whole(request.actor):
        overview = await request.services.overview.get(request.actor.tenant_id)
    return request.render(
        "dead_letters.html",
        overview=overview,
        failed=await _jobs(request, JobStatus.FAILED, SHOWN),
        shown=SHOWN,
    )


async def decisions_page(request: PageRequest) -> Response:
    """Show what waits for a person: approvals, broken payments, jobs with unknown outcome."""
    await request.learn_names()
    return request.render(
        "decisions.html",
        doubtful=await _jobs(request, JobStatus.UNKNOWN, SHOWN),
        parked=await _payments(request),
        unapproved=await _unapproved(request),
        shown=SHOWN,
    )


async def _jobs(request: PageRequest, status: JobStatus, limit: int) -> list[JobView]:
    if not request.actor.allows(Scope.JOBS_READ):
        return []
    wanted = JobFilter(status=status)
    found, _ = await request.services.job.read.page(request.actor.tenant_id, wanted, None, limit)
    return found


async def _payments(request: PageRequest) -> list[PaymentView]:
    if not request.actor.allows(Scope.PAYMENTS_READ):
        return []
    wanted = PaymentFilter(None, PaymentStatus.EXECUTING)
    found, _ = await request.services.payment.read.page(request.actor, wanted, MAX_ID, SHOWN)
    return found


async def _unapproved(request: PageRequest) -> list[PaymentView]:
    if not request.actor.allows(Scope.PAYMENTS_READ):
        return []
    found, _ = await request.services.payment.read.waiting(request.actor, MIN_ID, SHOWN)
    return found


PAGES: Final = (
    ConsolePage("/dead-letters", dead_letters_page),
    ConsolePage("/decisions", decisions_page),
)
