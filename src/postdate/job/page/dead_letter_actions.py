"""Redrive dead letters: those that were shown, or those that a filter finds."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from postdate.console.action import REASON, Action, DryRun, Field, plan_of, reason_of
from postdate.console.bulk import BulkRun, BulkStep
from postdate.console.equivalent_command import (
    FILTER_OPTIONS,
    EquivalentCommand,
    Typed,
    filter_members,
)
from postdate.console.page_request import PageRequest, instant
from postdate.core.identity import Scope
from postdate.job.change.dead_letter import DeadLetterFilter, Pace
from postdate.job.spec.view import JobView
from postdate.words.error import Code, refuse

MAX_REDRIVE: Final = 1000
"""What one transaction redrives: as many as one call of the API."""

MAX_BULK: Final = 10_000
"""What one form redrives by a filter."""

OLDEST: Final = 5


async def _redrive(request: PageRequest) -> BulkRun:
    return _work(_chosen(request), _per_second(request), None)


async def _redrive_all(request: PageRequest) -> BulkRun:
    return _work(plan_of(request), _per_second(request), reason_of(request))


def _work(job_ids: Sequence[UUID], per_second: float | None, reason: str | None) -> BulkRun:
    """Redrive the oldest first, at one pace over all of them."""

    async def do(current: PageRequest, piece: Sequence[UUID], begun: int) -> BulkStep:
        done = await current.services.dead_letter.redrive(
            current.actor.tenant_id, piece, Pace(per_second, begun), current.actor.key_id, reason
        )
        left = Counter(str(one.code) for one in done if one.code is not None)
        return BulkStep(len(done) - left.total(), left)

    return BulkRun(
        title="Redriving failed jobs",
        verb="redriven as new jobs",
        noun="job",
        scope=Scope.JOBS_WRITE,
        back="/dead-letters",
        items=sorted(job_ids),
        do=do,
    )


def _chosen(request: PageRequest) -> list[UUID]:
    """Take exactly the jobs that were shown; those that failed since then are not touched."""
    try:
        job_ids = [UUID(part) for part in request.form.get("jobs", "").split()]
    except ValueError:
        raise refuse(Code.INVALID_FIELD, "Give ids of jobs, separated by spaces.", "jobs") from None
    if not 0 < len(job_ids) <= MAX_REDRIVE:
        raise refuse(Code.INVALID_FIELD, f"Give 1 to {MAX_REDRIVE} ids.", "jobs")
    return job_ids


def _per_second(request: PageRequest) -> float | None:
    text = request.form.get("per_second", "").strip()
    try:
        given = float(text) if text else None
    except ValueError:
        given = -1.0
    if given is not None and not given > 0:
        raise refuse(Code.INVALID_FIELD, "The rate must be a number above 0.", "per_second")
    return given


async def _rehearse(request: PageRequest, given: Mapping[str, str]) -> DryRun:
    wanted = _filter(given)
    chosen: list[UUID] = []
    before: UUID | None = None
    while len(chosen) < MAX_BULK:
        part = await request.services.dead_letter.choose(
            request.actor.tenant_id, wanted, before, MAX_REDRIVE
        )
        chosen += part.job_ids
        before = part.following
        if before is None:
            break
    oldest = await request.services.job.read.find_many(
        request.actor.tenant_id, sorted(chosen)[:OLDEST]
    )
    facts = [
        ("Permanently failed", f"{len(chosen):,}"),
        ("Skipped", "already redriven"),
    ]
    if before is not None:
        facts.append(("More", f"one run takes {MAX_BULK:,}, the newest; run it again for the rest"))
    return DryRun(
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
        code=given.get("code") or None,
    )


def _pace(*, late: bool) -> Field:
    return Field(
        name="per_second",
        label="Jobs per second",
        kind="number",
        hint="empty: all at once",
        required=False,
        late=late,
    )


_MEANS: Final = (
    "Each becomes a new job with the same payload, which names the failed one as its origin. "
    "A job can be redriven once; those that were are skipped."
)


def _ids_body(typed: Typed) -> dict[str, Any]:
    return {"job_ids": typed["jobs"].split(), **_pace_member(typed)}


def _filter_body(typed: Typed) -> dict[str, Any]:
    chosen = filter_members(typed, "lane", "code", "schedule", "due_after", "due_before")
    return {"filter": chosen, **_pace_member(typed), "reason": typed["reason"]}


def _pace_member(typed: Typed) -> dict[str, Any]:
    return {"per_second": typed["per_second"]} if "per_second" in typed else {}


ACTIONS: Final = (
    Action(
        path="/dead-letters/redrive",
        scope=Scope.JOBS_WRITE,
        title="Redrive failed jobs",
        button="Redrive these",
        means=_MEANS,
        back="/dead-letters",
        does=_redrive,
        same=EquivalentCommand(
            operation="redrive_dead_letters", method_name="dead_letters.redrive", body=_ids_body
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
        back="/dead-letters",
        does=_redrive_all,
        rehearse=_rehearse,
        same=EquivalentCommand(
            operation="redrive_dead_letters",
            method_name="dead_letters.redrive",
            command="dead-letter redrive" + FILTER_OPTIONS + "[ --code {code}]"
            "[ --per-second {per_second}] --reason {reason} --yes",
            body=_filter_body,
        ),
        fields=(
            Field(name="lane", label="Lane", hint="empty: any", required=False),
            Field(name="code", label="Code", hint="empty: any", required=False),
            Field(name="schedule", label="Schedule", hint="empty: any", required=False),
            Field(name="due_after", label="Due after", kind="datetime-local", required=False),
            Field(name="due_before", label="Due before", kind="datetime-local", required=False),
            _pace(late=True),
            Field(name="reason", label=REASON.label, hint=REASON.hint, late=True),
        ),
    ),
)
