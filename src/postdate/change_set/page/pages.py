"""Change sets: drafts with what they would do, and how far the others have come."""

from typing import Any, Final
from uuid import UUID

import msgspec
from starlette.responses import Response

from postdate.change_set.api.change_set_view import ChangeSetView, StepView, view
from postdate.change_set.change.change import SetChange
from postdate.change_set.change.change_set import ChangeSet
from postdate.change_set.page.what_if_buttons import BUTTONS
from postdate.console.page_request import ConsolePage, PageRequest, instant
from postdate.core.ids import MAX_ID
from postdate.event.page.pages import subject_events
from postdate.foresight.view.effect import ChangeEffect
from postdate.schedule.spec.rule import check_instant
from postdate.words.error import Refusal, RefusedError

PAGE: Final = 50
WORKING: Final = ("APPLYING", "UNDOING")
STATES: Final = {
    "planned": "not made yet",
    "begun": "being made",
    "done": "made",
    "undone": "undone",
}


class ChangeSetFilters(msgspec.Struct, frozen=True, kw_only=True):
    """The address of the list."""

    before: UUID | None = None


class EffectFilters(msgspec.Struct, frozen=True, kw_only=True):
    """The address of a draft: until when its effect is computed."""

    until: str | None = None


class ChangeWords(msgspec.Struct, frozen=True):
    """One change in words, and how far it has come; None is what the key may not see."""

    title: str
    facts: dict[str, Any] | None
    state: str
    items: int | None
    """How many jobs or payments match."""
    step: StepView


def in_words(shown: ChangeSetView) -> list[ChangeWords]:
    """Write each change of a set as a title and its facts."""
    return [
        ChangeWords(
            title=step.type.replace("_", " ").capitalize(),
            facts=_facts(change),
            state=STATES[step.state],
            items=None if step.jobs is None else step.jobs + (step.payments or 0),
            step=step,
        )
        for change, step in zip(shown.changes, shown.steps, strict=True)
    ]


def _facts(change: SetChange | None) -> dict[str, Any] | None:
    if change is None:
        return None
    facts: dict[str, Any] = msgspec.to_builtins(change)
    del facts["type"]
    return facts


async def change_sets_page(request: PageRequest) -> Response:
    """List change sets, the newest first."""
    query = request.query(ChangeSetFilters)
    sets = request.services.change_set
    found, following = await sets.page(request.actor, query.before or MAX_ID, PAGE)
    await request.learn_names()
    return request.render(
        "change_sets.html",
        sets=[(each.row, in_words(view(each, request.actor))) for each in found],
        first=query.before is None,
        following=request.next_page(before=following),
    )


async def change_set_page(request: PageRequest) -> Response:
    """Show one: a draft with its effect, another with its progress."""
    found = await request.services.change_set.find(request.actor, request.uuid("change_set_id"))
    effect, refusal = await _effect(request, found) if found.row.status == "DRAFT" else (None, None)
    await request.learn_names()
    seen = view(found.summary, request.actor, effect)
    return request.render(
        "change_set.html",
        row=found.row,
        changes=in_words(seen),
        working=found.row.status in WORKING,
        effect=seen.effect,
        queues=_queues(seen.effect),
        refusal=refusal,
        again=None if None in seen.changes else msgspec.json.encode(seen.changes).decode(),
        events=[
            each
            for each in await subject_events(request, found.row.change_set_id)
            if each.type != "change_set.progressed"
        ],
    )


async def _effect(
    request: PageRequest, found: ChangeSet
) -> tuple[ChangeEffect | None, Refusal | None]:
    """Compute what a draft would do now; one that cannot be computed says why."""
    actor = request.actor
    try:
        until = instant(request.query(EffectFilters).until, "until")
        check_instant("until", until)
        supposed = await request.services.change_set.suppose(actor, found)
        effect = await request.services.foresight.effect.effect(actor.tenant_id, supposed, until)
    except RefusedError as error:
        return None, error.refusal
    return effect, None


def _queues(effect: ChangeEffect | None) -> list[tuple[Any, Any]]:
    """Pair each queue as it is with the same as it would be."""
    if effect is None:
        return []
    before = {(each.kind, each.name): each for each in effect.queues_before}
    after = {(each.kind, each.name): each for each in effect.queues_after}
    return [(before.get(name), after.get(name)) for name in {**before, **after}]


async def what_if_page(request: PageRequest) -> Response:
    """Offer every kind of change that can be tried out."""
    return request.render("what_if.html", forms=BUTTONS)


PAGES: Final = (
    ConsolePage("/change-sets", change_sets_page),
    ConsolePage("/change-sets/{change_set_id:uuid}", change_set_page),
    ConsolePage("/what-if", what_if_page),
)
