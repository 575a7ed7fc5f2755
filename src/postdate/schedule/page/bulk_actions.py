"""Bulk actions on selected schedules: pause or resume, after a dry run."""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final
from uuid import UUID

from postdate.console.action import REASON, Action, DryRun, Field, plan_of, reason_of
from postdate.console.bulk import BulkRun, BulkStep
from postdate.console.equivalent_command import EquivalentCommand
from postdate.console.page_request import PageRequest
from postdate.core.identity import Scope
from postdate.schedule.page.pages import status_words, words
from postdate.schedule.spec.spec import ScheduleView
from postdate.words.error import Code, RefusedError, refuse

SELECTED: Final = "schedules"
PIECE: Final = 50
"""Schedules of one piece: each is changed in a transaction of its own."""

BACK: Final = "/schedules"
HEAD: Final = ("Schedule", "Status", "Rule", "Next")

Act = Callable[[PageRequest, UUID, str | None], Awaitable[None]]


def _chosen(request: PageRequest) -> list[UUID]:
    try:
        found = [UUID(text) for text in request.http.query_params.getlist(SELECTED)]
    except ValueError:
        raise refuse(Code.INVALID_FIELD, "Select schedules by their ids.", SELECTED) from None
    if not found:
        raise refuse(Code.INVALID_FIELD, "Select schedules in the list first.", SELECTED)
    return found


async def _rehearse(request: PageRequest, *wanted: str) -> DryRun:
    """Take those that stand as `wanted` says; the others would be left as they are."""
    views = request.services.schedule.read
    found = [await views.find(request.actor, one) for one in _chosen(request)]
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
        plan=[one.schedule_id for one in plan],
    )


def _row(one: ScheduleView) -> tuple[object, ...]:
    return (one.name or str(one.schedule_id), one.status, words(one), one.next_due_at or "")


async def _rehearse_pause(request: PageRequest, _: Mapping[str, str]) -> DryRun:
    return await _rehearse(request, "ACTIVE")


async def _rehearse_resume(request: PageRequest, _: Mapping[str, str]) -> DryRun:
    return await _rehearse(request, "PAUSED", "SET_ASIDE")


def _work(request: PageRequest, title: str, verb: str, act: Act, reason: str | None) -> BulkRun:
    items: list[UUID] = plan_of(request)

    async def do(current: PageRequest, piece: Sequence[UUID], _: int) -> BulkStep:
        left: Counter[str] = Counter()
        for schedule_id in piece:
            try:
                await act(current, schedule_id, reason)
            except RefusedError as error:
                left[str(error.refusal.code)] += 1
        return BulkStep(len(piece) - left.total(), left)

    return BulkRun(
        title=title,
        verb=verb,
        noun="schedule",
        scope=Scope.SCHEDULES_WRITE,
        back=BACK,
        items=items,
        do=do,
        size=PIECE,
    )


async def _pause_one(request: PageRequest, schedule_id: UUID, reason: str | None) -> None:
    await request.services.schedule.change.pause(request.actor, schedule_id, reason)


async def _resume_one(request: PageRequest, schedule_id: UUID, _: str | None) -> None:
    await request.services.schedule.change.resume(request.actor, schedule_id)


async def _pause(request: PageRequest) -> BulkRun:
    return _work(request, "Pausing schedules", "paused", _pause_one, reason_of(request))


async def _resume(request: PageRequest) -> BulkRun:
    return _work(request, "Resuming schedules", "resumed", _resume_one, None)


ACTIONS: Final = (
    Action(
        path="/schedules/bulk/pause",
        scope=Scope.SCHEDULES_WRITE,
        limited="filtered",
        title="Pause many schedules",
        button="Pause these",
        means="Every occurrence of these schedules is skipped and listed as such, until they are "
        "resumed.",
        back=lambda _: BACK,
        does=_pause,
        fields=(Field(name="reason", label=REASON.label, hint=REASON.hint, late=True),),
        rehearse=_rehearse_pause,
        selects=SELECTED,
        same_for_each=EquivalentCommand(
            operation="pause_schedule",
            method_name="schedules.pause",
            command="schedule pause {schedule_id} --reason {reason}",
            body=lambda typed: {"note": typed["reason"]},
        ),
    ),
    Action(
        path="/schedules/bulk/resume",
        scope=Scope.SCHEDULES_WRITE,
        limited="filtered",
        title="Resume many schedules",
        button="Resume these",
        means="They continue with their next occurrence. Skipped occurrences stay skipped.",
        back=lambda _: BACK,
        does=_resume,
        rehearse=_rehearse_resume,
        selects=SELECTED,
        same_for_each=EquivalentCommand(
            operation="resume_schedule",
            method_name="schedules.resume",
            command="schedule resume {schedule_id}",
        ),
    ),
)
