"""Change sets: preview changes, apply them together, and undo them."""

from datetime import datetime
from typing import Annotated, Any, Final
from uuid import UUID

import msgspec
from msgspec import Meta

from postdate.api.services import Services
from postdate.change_set.api.change_set_view import ChangeSetView, reply_seen_by, view, whole
from postdate.change_set.change.change import MAX_CHANGES, At, SetChange
from postdate.change_set.change.change_set import ChangeSet, check_rights
from postdate.core.identity import Identity, Scope
from postdate.core.ids import MAX_ID
from postdate.foresight.view.effect import ChangeEffect
from postdate.http.endpoint import Body, Call, Reply
from postdate.http.page import PageQuery, next_cursor
from postdate.http.routes import Routes
from postdate.intake.answer_once import run_once_per_key
from postdate.intake.create_once import Remember
from postdate.schedule.spec.rule import check_instant
from postdate.words.error import Code

ROUTES: Final = Routes("change sets")
APPLY_SECONDS: Final = 60.0

Offset = Annotated[int, Meta(ge=0)]


class ChangeSetBody(Body, kw_only=True):
    """What is to be changed, in this order."""

    changes: Annotated[
        list[SetChange],
        Meta(min_length=1, max_length=MAX_CHANGES, description="Each as the operation by itself."),
    ]
    note: Annotated[str, Meta(min_length=1, max_length=500, description="Why.")] | None = None
    until_at: Annotated[
        At | None, Meta(description="End of the forecast; by default a day from now.")
    ] = None


class ChangeItem(msgspec.Struct, frozen=True, kw_only=True):
    """A job or payment that a change of the set is about."""

    change: int
    """Which change, counted from 0."""
    job_id: UUID | None = None
    payment_id: UUID | None = None
    changed: bool
    """Whether the set has changed it and not changed it back."""
    due_before: datetime | None
    """When it was due before."""
    restored_as: UUID | None
    """The payment that undoing has made in its place."""


class ChangeItemList(msgspec.Struct, frozen=True):
    """Items of a change set, in the order of its changes."""

    items: list[ChangeItem]
    next_cursor: str | None


class ChangeSetList(msgspec.Struct, frozen=True):
    """Change sets, the newest first."""

    change_sets: list[ChangeSetView]
    next_cursor: str | None


def items_of(found: ChangeSet, actor: Identity) -> list[ChangeItem]:
    """List the jobs and payments of the changes, as far as the key may read them."""
    nouns = [
        noun
        for noun, scope in (("job", Scope.JOBS_READ), ("payment", Scope.PAYMENTS_READ))
        if actor.allows(scope)
    ]
    return [
        ChangeItem(
            change=number,
            changed=each in step.due,
            due_before=step.due.get(each),
            restored_as=step.restored.get(each),
            **{f"{noun}_id": each},
        )
        for number, step in enumerate(found.steps)
        for noun in nouns
        for each in getattr(step, f"{noun}s")
    ]


@ROUTES.add(
    "POST",
    "/change-sets",
    "any",
    status=201,
    errors=(
        Code.NOT_FOUND,
        Code.DUE_IN_PAST,
        Code.UNKNOWN_SETTING,
        Code.TOO_COSTLY,
    ),
    max_seconds=APPLY_SECONDS,
    idempotency="optional",
    returns=ChangeSetView,
)
async def create_change_set(
    call: Call[Services, ChangeSetBody, None],
) -> Reply | msgspec.Struct:
    """Preview a set of changes.

    Nothing is changed: a draft is stored, and `effect` says what would move, what would be late and
    which payments would fail. A filter is frozen: the jobs or payments that match now are the only
    ones that applying the draft changes. Each change needs the scope of the same operation by
    itself. What a key may not read elsewhere is null or empty here: without `payments:read` a
    change of payments is null in `changes`, and its step shows neither the amount nor what is left.
    """
    actor, body = call.actor, call.body
    check_instant("until_at", body.until_at)
    check_rights(actor, body.changes)
    answer = await run_once_per_key(
        call,
        "change_set",
        lambda remember: _create(call, remember),
        lambda made: whole(made.draft.summary, made.effect),
    )
    return reply_seen_by(answer, actor)


class _Created(msgspec.Struct, frozen=True):
    draft: ChangeSet
    effect: ChangeEffect


async def _create(
    call: Call[Services, ChangeSetBody, None], remember: Remember[_Created]
) -> _Created:
    """Plan the changes and store them; a repeated request with the same key plans nothing."""
    actor, body, sets = call.actor, call.body, call.services.change_set
    draft = await sets.draft(actor, body.changes, body.note)
    supposed = await sets.suppose(actor, draft)
    effects = call.services.foresight.effect
    asked = effects.effect(actor.tenant_id, supposed, body.until_at)
    made = _Created(draft, await call.while_connected(asked))
    await sets.create(actor, draft, lambda connection, _: remember(connection, made))
    return made


@ROUTES.add(
    "GET",
    "/change-sets",
    "any",
)
async def list_change_sets(call: Call[Services, Any, PageQuery]) -> ChangeSetList:
    """List change sets, the newest first.

    Drafts are kept for a week, the others for 90 days. A page of large sets has fewer than `limit`:
    go on while there is a `next_cursor`.
    """
    actor, limit = call.actor, call.query.limit
    before = call.query.start(UUID, MAX_ID)
    found, following = await call.services.change_set.page(actor, before, limit)
    return ChangeSetList([view(each, actor) for each in found], next_cursor(following))


@ROUTES.add(
    "GET",
    "/change-sets/{change_set_id:uuid}",
    "any",
)
async def get_change_set(call: Call[Services, Any, None]) -> ChangeSetView:
    """Show a change set.

    `steps` shows the progress of each change.
    """
    found = await call.services.change_set.find(call.actor, call.uuid("change_set_id"))
    return view(found.summary, call.actor)


@ROUTES.add(
    "GET",
    "/change-sets/{change_set_id:uuid}/items",
    "any",
)
async def list_change_set_items(call: Call[Services, Any, PageQuery]) -> ChangeItemList:
    """List the jobs and payments of a change set.

    The items that matched when the set was created, with the result of each. Jobs need `jobs:read`,
    payments `payments:read`: a key sees only what it may read.
    """
    found = await call.services.change_set.find(call.actor, call.uuid("change_set_id"))
    items, begin = items_of(found, call.actor), call.query.start(Offset, 0)
    end = begin + call.query.limit
    return ChangeItemList(items[begin:end], next_cursor(end if end < len(items) else None))


@ROUTES.add(
    "POST",
    "/change-sets/{change_set_id:uuid}/apply",
    "any",
    errors=(Code.DUE_IN_PAST, Code.TENANT_HALTED),
    max_seconds=APPLY_SECONDS,
    halted="served",
)
async def apply_change_set(call: Call[Services, None, None]) -> ChangeSetView:
    """Apply a change set.

    The changes are made one after the other, and each step is recorded before and after it. If this
    is interrupted, send the request again to continue. Applying a set twice changes nothing.
    """
    done = await call.services.change_set.apply(call.actor, call.uuid("change_set_id"))
    return view(done.summary, call.actor)


@ROUTES.add(
    "POST",
    "/change-sets/{change_set_id:uuid}/undo",
    "any",
    errors=(Code.TENANT_HALTED,),
    max_seconds=APPLY_SECONDS,
    halted="served",
)
async def undo_change_set(call: Call[Services, None, None]) -> ChangeSetView:
    """Undo a change set, the last change first.

    Refused once a job or payment that was moved has been executed. Anything that others have
    changed since is left as it is, and `left` says so. A cancelled job is final: a new one is
    created, due at the same instant, with the old one as its `origin_id`. The same holds for a
    cancelled payment: the items name the new one, unless its instant has passed or the payer can no
    longer hold the amount.
    """
    done = await call.services.change_set.undo(call.actor, call.uuid("change_set_id"))
    return view(done.summary, call.actor)
