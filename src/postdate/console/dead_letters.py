"""Dead letters: what will not happen unless a person decides."""

from typing import Final
from uuid import UUID

from starlette.responses import Response

from postdate.console.action import Action, Field
from postdate.console.same import Same
from postdate.console.visit import Visit
from postdate.intake.dead_letter import Pace
from postdate.model.errors import Code, refuse
from postdate.model.identity import Scope
from postdate.model.job_view import JobView
from postdate.model.state import JobStatus, PaymentStatus
from postdate.views.job import JobFilter
from postdate.views.payment import NEWEST, PaymentFilter, PaymentView

REDRIVE_MOST: Final = 1000
"""What one form may redrive: as many as one call of the API."""

SHOWN: Final = 20
"""How many of each kind; the rest is one link away."""


async def dead_letters_page(visit: Visit) -> Response:
    """Show jobs in doubt, payments that wait for a person, and jobs that failed for good."""
    return visit.page(
        "dead_letters.html",
        doubtful=await _jobs(visit, JobStatus.UNKNOWN),
        failed=await _jobs(visit, JobStatus.FAILED),
        parked=await _payments(visit),
        shown=SHOWN,
    )


async def _jobs(visit: Visit, status: JobStatus) -> list[JobView]:
    if not visit.who.allows(Scope.JOBS_READ):
        return []
    wanted = JobFilter(status=status)
    found, _ = await visit.services.job_views.page(visit.who.tenant_id, wanted, None, SHOWN)
    return found


async def _payments(visit: Visit) -> list[PaymentView]:
    if not visit.who.allows(Scope.PAYMENTS_READ) or visit.who.accounts is not None:
        return []
    wanted = PaymentFilter(None, PaymentStatus.EXECUTING)
    found, _ = await visit.services.payment_views.page(visit.who, wanted, NEWEST, SHOWN)
    return found


async def _redrive(visit: Visit) -> str:
    job_ids, pace = _chosen(visit), _pace(visit)
    done = await visit.services.dead_letters.redrive(
        visit.who.tenant_id, job_ids, pace, visit.who.key_id
    )
    made = sum(one.code is None for one in done)
    skipped = sorted(one.code for one in done if one.code is not None)
    told = f"{made} of {len(done)} redriven as new jobs."
    return told + (f" Skipped: {', '.join(skipped)}." if skipped else "")


def _chosen(visit: Visit) -> list[UUID]:
    """Take exactly the jobs that were shown; those that failed since then are not touched."""
    try:
        job_ids = [UUID(part) for part in visit.form.get("jobs", "").split()]
    except ValueError:
        raise refuse(Code.INVALID_FIELD, "Give ids of jobs, separated by spaces.", "jobs") from None
    if not 0 < len(job_ids) <= REDRIVE_MOST:
        raise refuse(Code.INVALID_FIELD, f"Give 1 to {REDRIVE_MOST} ids.", "jobs")
    return job_ids


def _pace(visit: Visit) -> Pace:
    text = visit.form.get("per_second", "").strip()
    try:
        return Pace(float(text) if text else None)
    except ValueError:
        raise refuse(Code.INVALID_FIELD, "The pace is a number.", "per_second") from None


ACTIONS: Final = (
    Action(
        path="/dead-letters/redrive",
        scope=Scope.JOBS_WRITE,
        title="Redrive failed jobs",
        button="Redrive these",
        means="A new job is made of each, with the same payload; it names the failed one as its "
        "origin. A job is redriven once: those that were are skipped.",
        back=lambda _: "/dead-letters",
        does=_redrive,
        same=Same("POST /dead-letters/redrive", '{"job_ids": ["<jobs>"]}'),
        fields=(
            Field(name="jobs", label="Jobs", hint="exactly those that were shown"),
            Field(
                name="per_second",
                label="How many a second",
                kind="number",
                hint="empty: all at once",
                required=False,
            ),
        ),
    ),
)
