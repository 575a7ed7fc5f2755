"""Dead letters: what will not happen unless a person decides."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from starlette.responses import Response

from postdate.console.page_request import Visit
from postdate.model.job.view import JobView
from postdate.model.state import JobStatus, PaymentStatus
from postdate.model.tenant.identity import Scope
from postdate.views.job import JobFilter
from postdate.views.payment import NEWEST, PaymentFilter
from postdate.views.payment_shape import PaymentView

SHOWN: Final = 20
"""How many of each kind; the rest is one link away."""

GROUPED: Final = 100
"""How many of the newest failures are grouped by their codes."""

HOUR: Final = timedelta(hours=1)
DAY: Final = timedelta(days=1)


async def dead_letters_page(visit: Visit) -> Response:
    """Show jobs in doubt, payments that wait for a person, and jobs that failed for good."""
    failed = await _jobs(visit, JobStatus.FAILED, GROUPED)
    return visit.page(
        "dead_letters.html",
        doubtful=await _jobs(visit, JobStatus.UNKNOWN, SHOWN),
        failed=failed[:SHOWN],
        groups=groups(failed, visit.now),
        grouped=len(failed),
        parked=await _payments(visit),
        unapproved=await _unapproved(visit),
        shown=SHOWN,
    )


def groups(failed: Sequence[JobView], now: datetime) -> list[tuple[str, str, int, int, int]]:
    """Count failures by code and lane: of the last hour, of the last day, of all looked at."""
    counts: dict[tuple[str, str], Counter[str]] = {}
    for job in failed:
        age = now - (job.finished_at or now)
        counted = counts.setdefault((job.code or "", job.lane), Counter())
        counted.update(["all"] + ["hour"] * (age <= HOUR) + ["day"] * (age <= DAY))
    rows = [(*place, many["hour"], many["day"], many["all"]) for place, many in counts.items()]
    return sorted(rows, key=lambda row: row[2:], reverse=True)


async def _jobs(visit: Visit, status: JobStatus, limit: int) -> list[JobView]:
    if not visit.who.allows(Scope.JOBS_READ):
        return []
    wanted = JobFilter(status=status)
    found, _ = await visit.services.job_views.page(visit.who.tenant_id, wanted, None, limit)
    return found


async def _payments(visit: Visit) -> list[PaymentView]:
    if not visit.who.allows(Scope.PAYMENTS_READ) or visit.who.accounts is not None:
        return []
    wanted = PaymentFilter(None, PaymentStatus.EXECUTING)
    found, _ = await visit.services.payment_views.page(visit.who, wanted, NEWEST, SHOWN)
    return found


async def _unapproved(visit: Visit) -> list[PaymentView]:
    if not visit.who.allows(Scope.PAYMENTS_READ) or visit.who.accounts is not None:
        return []
    found, _ = await visit.services.payment_views.waiting(visit.who, UUID(int=0), SHOWN)
    return found
