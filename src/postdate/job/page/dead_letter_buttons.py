"""Redrive dead letters: the ones shown, or the ones that a filter finds."""

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from postdate.console.button import LATE_REASON, Button
from postdate.console.dry_run import DryRun
from postdate.console.form_field import FieldSpec
from postdate.console.operation import (
    ENDPOINT_BY_NAME,
    Answer,
    BodyFields,
    decode_body,
)
from postdate.console.page_request import PageRequest
from postdate.job.change.dead_letter import MAX_REDRIVE
from postdate.job.spec.view import JobView

if TYPE_CHECKING:
    from uuid import UUID

MAX_BULK: Final = 10_000
"""What one form redrives by a filter."""

OLDEST: Final = 5


async def _rehearse(request: PageRequest, body: BodyFields) -> DryRun:
    wanted = decode_body(ENDPOINT_BY_NAME["redrive_dead_letters"], body).filter
    tenant_id, letters = request.actor.tenant_id, request.services.dead_letter
    chosen: list[UUID] = []
    before: UUID | None = None
    while len(chosen) < MAX_BULK:
        part = await letters.choose(tenant_id, wanted, before, MAX_REDRIVE)
        chosen += part.job_ids
        before = part.following
        if before is None:
            break
    facts = [("Permanently failed", f"{len(chosen):,}"), ("Skipped", "already redriven")]
    if before is not None:
        facts.append(("More", f"one run takes {MAX_BULK:,}, the newest; run it again for the rest"))
    oldest = await request.services.job.read.find_many(tenant_id, sorted(chosen)[:OLDEST])
    return DryRun(
        count=len(chosen),
        noun="job",
        facts=facts,
        head=("Job", "Failed", "Lane", "Why"),
        rows=[_row(job) for job in oldest],
        items=sorted(chosen),
    )


def _row(job: JobView) -> tuple[Any, ...]:
    why = f"{job.code or ''} {job.error or ''}".strip()
    return (str(job.job_id), job.finished_at or job.effective_at, job.lane, why)


def _left(answer: Answer) -> Counter[str]:
    """Count why some were not redriven."""
    return Counter(str(one["code"]) for one in answer["outcomes"] if one.get("code"))


def _redriven(_: PageRequest, answer: Answer) -> str:
    left = _left(answer)
    said = f"{answer['redriven']:,} of {len(answer['outcomes']):,} jobs redriven as new jobs."
    skipped = ", ".join(f"{many:,} {code}" for code, many in sorted(left.items()))
    return f"{said} Skipped: {skipped}." if skipped else said


_MEANS: Final = (
    "Each becomes a new job with the same payload, which names the failed one as its origin. "
    "A job can be redriven once; redriven jobs are skipped."
)
_PACE: Final = FieldSpec("per_second", label="Jobs per second")

BUTTONS: Final = (
    Button(
        "redrive_dead_letters",
        title="Redrive failed jobs",
        confirm="Redrive these",
        means=_MEANS,
        fields=(FieldSpec("job_ids", label="Jobs", required=True), _PACE, "reason"),
        back="/dead-letters",
        done=_redriven,
    ),
    Button(
        "redrive_dead_letters",
        at="/dead-letters/redrive-all",
        label="Redrive these",
        title="Redrive failed jobs by filter",
        means=_MEANS,
        fields=(
            "filter.lane",
            "filter.code",
            "filter.schedule_id",
            "filter.due_after",
            "filter.due_before",
            replace(_PACE, late=True),
            LATE_REASON,
        ),
        fixed={"filter": {}},
        back="/dead-letters",
        rehearse=_rehearse,
        bulk=True,
    ),
)
