"""Dead letters: what will not happen unless a person decides."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from starlette.responses import Response

from postdate.console.action import REASON, Action, Field, Rehearsal, plan_of, reason_of
from postdate.console.same import Same
from postdate.console.visit import Visit, instant
from postdate.console.work import Piece, Work
from postdate.intake.job.dead_letter import DeadLetterFilter, Pace
from postdate.model.errors import Code, refuse
from postdate.model.identity import Scope
from postdate.model.job_view import JobView
from postdate.model.state import JobStatus, PaymentStatus
from postdate.views.job import JobFilter
from postdate.views.payment import NEWEST, PaymentFilter
from postdate.views.payment_shape import PaymentView

REDRIVE_MOST: Final = 1000
"""What one transaction redrives: as many as one call of the API."""

BULK_MOST: Final = 10_000
"""What one form redrives by a filter."""

SHOWN: Final = 20
"""How many of each kind; the rest is one link away."""

GROUPED: Final = 100
"""How many of the newest failures are grouped by their codes."""

OLDEST: Final = 5
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


async def _redrive(visit: Visit) -> Work:
    return _work(_chosen(visit), _per_second(visit), None)


async def _redrive_all(visit: Visit) -> Work:
    return _work(plan_of(visit), _per_second(visit), reason_of(visit))


def _work(job_ids: Sequence[UUID], per_second: float | None, reason: str | None) -> Work:
    """Redrive the oldest first, at one pace over all of them."""

    async def do(now: Visit, piece: Sequence[UUID], begun: int) -> Piece:
        done = await now.services.dead_letters.redrive(
            now.who.tenant_id, piece, Pace(per_second, begun), now.who.key_id, reason
        )
        left = Counter(str(one.code) for one in done if one.code is not None)
        return Piece(len(done) - left.total(), left)

    return Work(
        title="Redriving failed jobs",
        verb="redriven as new jobs",
        noun="job",
        scope=Scope.JOBS_WRITE,
        back="/dead-letters",
        items=sorted(job_ids),
        do=do,
    )


def _chosen(visit: Visit) -> list[UUID]:
    """Take exactly the jobs that were shown; those that failed since then are not touched."""
    try:
        job_ids = [UUID(part) for part in visit.form.get("jobs", "").split()]
    except ValueError:
        raise refuse(Code.INVALID_FIELD, "Give ids of jobs, separated by spaces.", "jobs") from None
    if not 0 < len(job_ids) <= REDRIVE_MOST:
        raise refuse(Code.INVALID_FIELD, f"Give 1 to {REDRIVE_MOST} ids.", "jobs")
    return job_ids


def _per_second(visit: Visit) -> float | None:
    text = visit.form.get("per_second", "").strip()
    try:
        given = float(text) if text else None
    except ValueError:
        given = -1.0
    if given is not None and not given > 0:
        raise refuse(Code.INVALID_FIELD, "The pace is a number above 0.", "per_second")
    return given


async def _rehearse(visit: Visit, given: Mapping[str, str]) -> Rehearsal:
    wanted = _filter(given)
    chosen: list[UUID] = []
    before: UUID | None = None
    while len(chosen) < BULK_MOST:
        part = await visit.services.dead_letters.choose(
            visit.who.tenant_id, wanted, before, REDRIVE_MOST
        )
        chosen += part.job_ids
        before = part.following
        if before is None:
            break
    oldest = await visit.services.job_views.some(visit.who.tenant_id, sorted(chosen)[:OLDEST])
    facts = [
        ("Failed for good", f"{len(chosen):,}"),
        ("Skipped", "those that were redriven before"),
    ]
    if before is not None:
        facts.append(("More", f"one go takes {BULK_MOST:,}, the newest; run it again for the rest"))
    return Rehearsal(
        count=len(chosen),
        noun="job",
        facts=facts,
        head=("Job", "Failed", "Lane", "Why"),
        rows=[_row(job) for job in oldest],
        plan=chosen,
    )


def _row(job: JobView) -> tuple[Any, ...]:
    why = f"{job.code or ''} {job.error or ''}".strip()
    return (str(job.job_id), job.finished_at or job.effective_at, job.lane, why)


def _filter(given: Mapping[str, str]) -> DeadLetterFilter:
    try:
        schedule_id = UUID(given["schedule"]) if given.get("schedule") else None
    except ValueError:
        raise refuse(Code.INVALID_FIELD, "The schedule is an id.", "schedule") from None
    return DeadLetterFilter(
        lane=given.get("lane") or None,
        schedule_id=schedule_id,
        due_after=instant(given.get("due_after"), "due_after"),
        due_before=instant(given.get("due_before"), "due_before"),
    )


def _pace(*, late: bool) -> Field:
    return Field(
        name="per_second",
        label="How many a second",
        kind="number",
        hint="empty: all at once",
        required=False,
        late=late,
    )


_MEANS: Final = (
    "A new job is made of each, with the same payload; it names the failed one as its origin. "
    "A job is redriven once: those that were are skipped."
)

ACTIONS: Final = (
    Action(
        path="/dead-letters/redrive",
        scope=Scope.JOBS_WRITE,
        title="Redrive failed jobs",
        button="Redrive these",
        means=_MEANS,
        back=lambda _: "/dead-letters",
        does=_redrive,
        same=Same(
            "POST /dead-letters/redrive",
            '{"job_ids": ["<jobs>"]}',
            "dead-letter redrive {jobs}",
        ),
        fields=(
            Field(name="jobs", label="Jobs", hint="exactly those that were shown"),
            _pace(late=False),
        ),
    ),
    Action(
        path="/dead-letters/redrive-all",
        scope=Scope.JOBS_WRITE,
        title="Redrive failed jobs by filter",
        button="Redrive these",
        means=_MEANS,
        back=lambda _: "/dead-letters",
        does=_redrive_all,
        rehearse=_rehearse,
        same=Same(
            "POST /dead-letters/redrive",
            '{"filter": {"lane": "<lane>"}, "per_second": 10, "reason": "<reason>"}',
            "dead-letter redrive --lane {lane} --per-second 10 --reason {reason} --yes",
        ),
        fields=(
            Field(name="lane", label="Lane", hint="empty: any", required=False),
            Field(name="schedule", label="Schedule", hint="empty: any", required=False),
            Field(name="due_after", label="Due after", kind="datetime-local", required=False),
            Field(name="due_before", label="Due before", kind="datetime-local", required=False),
            _pace(late=True),
            Field(name="reason", label=REASON.label, hint=REASON.hint, late=True),
        ),
    ),
)
