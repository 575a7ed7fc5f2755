"""Pause and resume selected schedules, after a dry run."""

from collections import Counter
from functools import partial
from typing import Final

from postdate.console.button import Button, Each
from postdate.console.dry_run import DryRun, selected_ids
from postdate.console.form_field import FieldSpec
from postdate.console.operation import BodyFields
from postdate.console.page_request import PageRequest
from postdate.schedule.page.pages import status_words, words
from postdate.schedule.spec.spec import ScheduleView
from postdate.words.error import Code, refuse

SELECTED: Final = "schedules"
HEAD: Final = ("Schedule", "Status", "Rule", "Next")


async def _rehearse(request: PageRequest, _: BodyFields, *, wanted: tuple[str, ...]) -> DryRun:
    """Take the schedules with the wanted status; the others would be left as they are."""
    chosen, views = selected_ids(request, SELECTED), request.services.schedule.read
    if not chosen:
        raise refuse(Code.INVALID_FIELD, "Select schedules in the list first.", SELECTED)
    found = [await views.find(request.actor, one) for one in chosen]
    known = [one for one in found if one is not None]
    plan = [one for one in known if one.status in wanted]
    counts = Counter(status_words(one.status) for one in known if one.status not in wanted)
    facts = [(status_words(wanted[0]).capitalize(), f"{len(plan):,}")]
    facts += [("Skipped", f"{many:,} {status}") for status, many in sorted(counts.items())]
    return DryRun(
        count=len(plan),
        noun="schedule",
        facts=facts,
        head=HEAD,
        rows=[_row(one) for one in plan],
        items=[one.schedule_id for one in plan],
    )


def _row(one: ScheduleView) -> tuple[object, ...]:
    return (one.name or str(one.schedule_id), one.status, words(one), one.next_due_at or "")


BUTTONS: Final = (
    Button(
        "pause_schedule",
        at="/schedules/bulk/pause",
        label="Pause these",
        title="Pause many schedules",
        means="Every occurrence of these schedules is skipped and listed as such, until they are "
        "resumed.",
        fields=(FieldSpec("note", required=True, late=True),),
        back="/schedules",
        rehearse=partial(_rehearse, wanted=("ACTIVE",)),
        bulk=True,
        selects=SELECTED,
        each=Each("pause_schedule", {"note": "note"}),
    ),
    Button(
        "resume_schedule",
        at="/schedules/bulk/resume",
        label="Resume these",
        title="Resume many schedules",
        means="They continue with their next occurrence. Skipped occurrences stay skipped.",
        back="/schedules",
        rehearse=partial(_rehearse, wanted=("PAUSED", "SET_ASIDE")),
        bulk=True,
        selects=SELECTED,
        each=Each("resume_schedule"),
    ),
)
