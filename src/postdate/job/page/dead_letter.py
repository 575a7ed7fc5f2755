"""Dead letters: work that waits for a decision."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from starlette.responses import Response

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

GROUPED: Final = 100
"""How many of the newest failures are grouped by their codes."""

HOUR: Final = timedelta(hours=1)
DAY: Final = timedelta(days=1)


async def dead_letters_page(request: PageRequest) -> Response:
    """Show jobs with unknown outcome, payments that need a decision, and failed jobs."""
    failed = await _jobs(request, JobStatus.FAILED, GROUPED)
    await request.learn_names()
    return request.render(
        "dead_letters.html",
        doubtful=await _jobs(request, JobStatus.UNKNOWN, SHOWN),
        failed=failed[:SHOWN],
        groups=groups(failed, request.now),
        grouped=len(failed),
        parked=await _payments(request),
        unapproved=await _unapproved(request),
        shown=SHOWN,
    )


def groups(failed: Sequence[JobView], now: datetime) -> list[tuple[str, str, int, int, int]]:
    """Count failures by code and lane: of the last hour, of the last day, of all that were read."""
    counts: dict[tuple[str, str], Counter[str]] = {}
    for job in failed:
        age = now - (job.finished_at or now)
        counted = counts.setdefault((job.code or "", job.lane), Counter())
        counted.update(["all"] + ["hour"] * (age <= HOUR) + ["day"] * (age <= DAY))
    rows = [(*group, many["hour"], many["day"], many["all"]) for group, many in counts.items()]
    return sorted(rows, key=lambda row: row[2:], reverse=True)


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


PAGES: Final = (ConsolePage("/dead-letters", dead_letters_page),)
