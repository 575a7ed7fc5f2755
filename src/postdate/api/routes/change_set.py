"""Change sets: see what changes would do, make them together, and undo them."""

from datetime import datetime
from typing import Annotated, Any, Final, Literal
from uuid import UUID

import msgspec
from msgspec import Meta

from postdate.api.http.endpoint import Body, Call, Query, Reply
from postdate.api.http.page import DEFAULT_PAGE, MAX_PAGE, decode_cursor, encode_cursor
from postdate.api.http.routes import Routes
from postdate.api.idempotency import run_once_per_key
from postdate.api.routes.foresight import check_instant
from postdate.api.services import Services
from postdate.intake.change_set.change import MAX_CHANGES, At, Change
from postdate.intake.change_set.change_set import ChangeSet
from postdate.model.error import Code
from postdate.model.ids import MAX_ID
from postdate.model.shape import shaped
from postdate.model.tenant.identity import Scope
from postdate.views.foresight.effect import ChangeEffect

ROUTES: Final = Routes("change sets")
APPLY_SECONDS: Final = 60.0


class ChangeSetBody(Body, kw_only=True):
    """What is to be changed, in this order."""

    changes: Annotated[
        list[Change],
        Meta(min_length=1, max_length=MAX_CHANGES, description="Each as the operation by itself."),
    ]
    note: Annotated[str, Meta(min_length=1, max_length=500, description="Why.")] | None = None
    until_at: Annotated[At | None, Meta(description="How far to look ahead; a day by default.")] = (
        None
    )


class StepView(msgspec.Struct, frozen=True, kw_only=True):
    """How far one change has come."""

    type: str
    state: Literal["planned", "begun", "done", "undone"]
    jobs: int
    """How many jobs matched when the set was made."""
    payments: int
    """The same of payments."""
    amount: int
    """What these payments come to."""
    more: bool
    changed: int
    restored: dict[str, UUID]
    """Payments that were cancelled, and those that undoing has made in their place."""
    left: list[str]
    """What undoing has left as it is, and why: others have changed it since, for example."""


class ChangeSetView(msgspec.Struct, frozen=True, kw_only=True):
    """A change set; a draft comes with its effect."""

    change_set_id: UUID
    status: str
    note: str | None
    created_by: str
    created_at: datetime
    changed_at: datetime
    changes: list[Change]
    steps: list[StepView]
    effect: ChangeEffect | None = None


class ChangeSetList(msgspec.Struct, frozen=True):
    """Change sets, the newest first."""

    change_sets: list[ChangeSetView]
    next_cursor: str | None


class ChangeSetQuery(Query, kw_only=True):
    """Which page."""

    limit: Annotated[int, Meta(ge=1, le=MAX_PAGE, description="How many at most.")] = DEFAULT_PAGE
    cursor: Annotated[str | None, Meta(description="`next_cursor` of the page before.")] = None


def view(found: ChangeSet, effect: ChangeEffect | None = None) -> ChangeSetView:
    """Show a change set."""
    kinds = [each["type"] for each in msgspec.to_builtins(found.changes)]
    steps = [
        shaped(
            StepView,
            step,
            type=kind,
            jobs=len(step.jobs),
            payments=len(step.payments),
            restored={str(old): new for old, new in step.restored.items()},
        )
        for kind, step in zip(kinds, found.steps, strict=True)
    ]
    return shaped(ChangeSetView, found.row, changes=found.changes, steps=steps, effect=effect)


@ROUTES.add(
    "POST",
    "/change-sets",
    "any",
    status=201,
    errors=(Code.FORBIDDEN, Code.NOT_FOUND, Code.RATE_LIMITED, Code.DUE_IN_PAST),
    max_seconds=APPLY_SECONDS,
    idempotency="optional",
    returns=ChangeSetView,
)
async def create_change_set(
    call: Call[Services, ChangeSetBody, None],
) -> Reply | msgspec.Struct:
    """See what changes would do.

    Nothing is changed: a draft is stored, and `effect` says what would move, what would be late and
    which payments would fail. A filter is frozen: the jobs or payments that match now are the only
    ones that applying the draft touches. Each change needs the scope of the same operation by
    itself. A key without `payments:read` is not told which payments they are: `failing` is empty.
    """
    actor, body, sets = call.actor, call.body, call.services.change_set
    check_instant("until_at", body.until_at)
    draft = await sets.draft(actor, body.changes, body.note)
    supposed = await sets.suppose(actor, draft)
    effects = call.services.foresight.effect
    effect = await effects.effect(actor.tenant_id, supposed, body.until_at)
    if not actor.allows(Scope.PAYMENTS_READ):
        effect = msgspec.structs.replace(effect, failing=[])
    return await run_once_per_key(
        call,
        "change_set",
        lambda remember: sets.create(actor, draft, remember),
        lambda made: view(made, effect),
    )


@ROUTES.add("GET", "/change-sets", "any", errors=(Code.INVALID_CURSOR, Code.FORBIDDEN))
async def list_change_sets(call: Call[Services, Any, ChangeSetQuery]) -> ChangeSetList:
    """List change sets, the newest first.

    Drafts are kept for a week, the others for 90 days.
    """
    limit, cursor = call.query.limit, call.query.cursor
    before = MAX_ID if cursor is None else decode_cursor(cursor, UUID)
    found = await call.services.change_set.page(call.actor, before, limit)
    last = found[-1].row.change_set_id if len(found) == limit else None
    return ChangeSetList(
        [view(each) for each in found], None if last is None else encode_cursor(last)
    )


@ROUTES.add(
    "GET", "/change-sets/{change_set_id:uuid}", "any", errors=(Code.NOT_FOUND, Code.FORBIDDEN)
)
async def get_change_set(call: Call[Services, Any, None]) -> ChangeSetView:
    """Show a change set.

    `steps` says of each change how far it has come.
    """
    return view(await call.services.change_set.find(call.actor, call.uuid("change_set_id")))


@ROUTES.add(
    "POST",
    "/change-sets/{change_set_id:uuid}/apply",
    "any",
    errors=(Code.NOT_FOUND, Code.CONFLICT, Code.FORBIDDEN, Code.DUE_IN_PAST, Code.TENANT_HALTED),
    max_seconds=APPLY_SECONDS,
    halted="served",
)
async def apply_change_set(call: Call[Services, None, None]) -> ChangeSetView:
    """Make the changes, one after the other.

    Each step is recorded before and after it: when this is broken off, ask again and it goes on.
    Asking again for one that is applied changes nothing.
    """
    return view(await call.services.change_set.apply(call.actor, call.uuid("change_set_id")))


@ROUTES.add(
    "POST",
    "/change-sets/{change_set_id:uuid}/undo",
    "any",
    errors=(Code.NOT_FOUND, Code.CONFLICT, Code.FORBIDDEN, Code.TENANT_HALTED),
    max_seconds=APPLY_SECONDS,
    halted="served",
)
async def undo_change_set(call: Call[Services, None, None]) -> ChangeSetView:
    """Undo the changes, the last first.

    Refused once something that was moved has been executed. What somebody else has changed since is
    left as it is, and `left` says so. A cancelled job is final: it is made anew, due when it was,
    and names the old one as its `origin_id`. So is a cancelled payment: `restored` names the new
    one, unless its instant has passed or the payer can no longer hold the amount.
    """
    return view(await call.services.change_set.undo(call.actor, call.uuid("change_set_id")))
