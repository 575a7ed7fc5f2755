"""Redrive dead letters: the ones shown, or the ones that a filter finds."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final
from uuid import UUID

from postdate.console.bulk import Bulk, BulkRun, BulkStep
from postdate.console.button import LATE_REASON, Button
from postdate.console.dry_run import DryRun
from postdate.console.form_field import FieldSpec
from postdate.console.operation import (
    ENDPOINT_BY_NAME,
    Answer,
    BodyFields,
    call_endpoint,
    decode_body,
)
from postdate.console.page_request import PageRequest
from postdate.http.page import encode_cursor
from postdate.job.api.dead_letter import RedriveCursor
from postdate.job.change.dead_letter import MAX_REDRIVE
from postdate.job.spec.view import JobView

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


async def _redrive(request: PageRequest, run: BulkRun, piece: Sequence[UUID]) -> BulkStep:
    """Redrive exactly these, at one pace over all of them."""
    begun = encode_cursor(RedriveCursor(piece[0], run.position))
    body = {name: value for name, value in run.body.items() if name != "filter"}
    answer = await call_endpoint(
        request, run.endpoint, body | {"job_ids": list(map(str, piece)), "cursor": begun}
    )
    left = _left(answer)
    return BulkStep(len(piece) - left.total(), left)


def _left(answer: Answer) -> Counter[str]:
    """Count why some were not redriven."""
    return Counter(str(one["code"]) for one in answer["outcomes"] if one.get("code"))


def _redriven(_: PageRequest, answer: Answer) -> str:
    left: Mapping[str, int] = _left(answer)
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
        bulk=Bulk(
            title="Redriving failed jobs", verb="redriven as new jobs", noun="job", step=_redrive
        ),
    ),
)
