"""Change sets as a key may see them: one table says which scope shows each field.

A key sees a change if it may read the changed object. It also sees how many items a change touches
if it may make the change: the operation by itself reports the same number.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from enum import Enum
from typing import Any, Final, Literal, TypeVar
from uuid import UUID

import msgspec

from postdate.change_set.change import change as changes
from postdate.change_set.change.change import KINDS, SCOPES, SetChange
from postdate.change_set.change.summary import ChangeSetSummary
from postdate.core.identity import Identity, Scope
from postdate.core.shape import shaped
from postdate.foresight.view.effect import ChangeEffect
from postdate.http.endpoint import Reply
from postdate.intake.idempotency import CREATED

S = TypeVar("S", bound=msgspec.Struct)


class StepView(msgspec.Struct, frozen=True, kw_only=True):
    """How far one change has come; null or empty is what the key may not see."""

    type: str
    state: Literal["planned", "begun", "done", "undone"]
    jobs: int | None
    """How many jobs matched when the set was made."""
    payments: int | None
    """How many payments matched when the set was made."""
    amount: int | None
    """The total amount of these payments."""
    more: bool | None
    changed: int | None
    restored: int | None
    """How many cancelled payments the undo has created again; the items name them."""
    left: list[str]
    """What undoing has left as it is, and why, the first 20."""
    left_count: int | None


class ChangeSetView(msgspec.Struct, frozen=True, kw_only=True):
    """A change set; a draft comes with its effect."""

    change_set_id: UUID
    status: str
    note: str | None
    created_by: str
    created_at: datetime
    changed_at: datetime
    changes: list[SetChange | None]
    """Null is a change of something that the key may not read; its step tells the kind."""
    steps: list[StepView]
    effect: ChangeEffect | None = None


class Cover(Enum):
    """Whom a field of a step is shown to."""

    ALL = "every key"
    COUNT = "who may read what the change is about, or make it"
    DETAIL = "who may read what the change is about"


READ_SCOPES: Final[Mapping[type[msgspec.Struct], Scope | None]] = {
    changes.PauseLane: Scope.JOBS_READ,
    changes.LimitLane: Scope.JOBS_READ,
    changes.PauseSchedule: Scope.SCHEDULES_READ,
    changes.ChangePolicy: Scope.SCHEDULES_READ,
    # Halts are told to every key.
    changes.Freeze: None,
    changes.HaltTenant: None,
    changes.PutSetting: Scope.ADMIN,
    changes.RescheduleJobs: Scope.JOBS_READ,
    changes.CancelJobs: Scope.JOBS_READ,
    changes.ReschedulePayments: Scope.PAYMENTS_READ,
    changes.CancelPayments: Scope.PAYMENTS_READ,
}
"""What reading the subject of each change needs elsewhere."""

STEP_COVER: Final[Mapping[str, Cover]] = {
    "type": Cover.ALL,
    "state": Cover.ALL,
    "jobs": Cover.COUNT,
    "payments": Cover.COUNT,
    "amount": Cover.DETAIL,
    "more": Cover.COUNT,
    "changed": Cover.COUNT,
    "restored": Cover.DETAIL,
    "left": Cover.DETAIL,
    "left_count": Cover.COUNT,
}

EFFECT_COVER: Final[Mapping[str, Cover | Scope]] = {
    "from_at": Cover.ALL,
    "until_at": Cover.ALL,
    "known_until": Cover.ALL,
    "error_percent": Cover.ALL,
    "moved": Cover.COUNT,
    "moved_amount": Scope.PAYMENTS_READ,
    "released_amount": Scope.PAYMENTS_READ,
    "held": Cover.COUNT,
    "skipped": Cover.COUNT,
    "queues_before": Scope.JOBS_READ,
    "queues_after": Scope.JOBS_READ,
    "failing_before": Scope.PAYMENTS_READ,
    "failing_after": Scope.PAYMENTS_READ,
    "failing": Scope.PAYMENTS_READ,
}
"""Scope required for each field of `effect`."""


def view(
    found: ChangeSetSummary, actor: Identity, effect: ChangeEffect | None = None
) -> ChangeSetView:
    """Show a change set as far as the key may see it."""
    return seen_by(whole(found, effect), actor)


def whole(found: ChangeSetSummary, effect: ChangeEffect | None = None) -> ChangeSetView:
    """Return everything that a change set shows."""
    steps = [
        shaped(StepView, step, type=change.__struct_config__.tag)
        for change, step in zip(found.changes, found.steps, strict=True)
    ]
    return shaped(ChangeSetView, found.row, changes=found.changes, steps=steps, effect=effect)


def seen_by(shown: ChangeSetView, actor: Identity) -> ChangeSetView:
    """Leave out of a whole change set what the key may not see."""
    sights = [_sight(step.type, actor) for step in shown.steps]
    pairs = zip(shown.changes, sights, strict=True)
    return msgspec.structs.replace(
        shown,
        changes=[change if Cover.DETAIL in sight else None for change, sight in pairs],
        steps=[_step_seen(*each) for each in zip(shown.steps, sights, strict=True)],
        effect=None if shown.effect is None else _effect_seen_by(shown.effect, sights, actor),
    )


def reply_seen_by(answer: Reply | msgspec.Struct, actor: Identity) -> Reply | msgspec.Struct:
    """Show a whole answer as far as the key may see it; one that was kept may be another key's."""
    if isinstance(answer, ChangeSetView):
        return seen_by(answer, actor)
    if not isinstance(answer, Reply) or answer.status != CREATED:
        return answer
    if not isinstance(answer.body, bytes):
        raise TypeError("a kept answer is encoded")
    kept = msgspec.json.decode(answer.body, type=ChangeSetView)
    return replace(answer, body=seen_by(kept, actor))


def _sight(kind: str, actor: Identity) -> frozenset[Cover]:
    """Return what of a change of a kind a key may see."""
    change = KINDS[kind]
    scope = READ_SCOPES[change]
    if scope is None or actor.allows(scope):
        return frozenset(Cover)
    return frozenset({Cover.ALL, Cover.COUNT} if actor.allows(SCOPES[change]) else {Cover.ALL})


def _step_seen(step: StepView, sight: frozenset[Cover]) -> StepView:
    return _covered(step, lambda name: STEP_COVER[name] in sight)


def _effect_seen_by(
    effect: ChangeEffect, sights: list[frozenset[Cover]], actor: Identity
) -> ChangeEffect:
    common = frozenset(Cover).intersection(*sights)

    def visible(name: str) -> bool:
        cover = EFFECT_COVER[name]
        return actor.allows(cover) if isinstance(cover, Scope) else cover in common

    return _covered(effect, visible)


def _covered(shown: S, visible: Callable[[str], bool]) -> S:
    """Blank every field that is not to be seen."""
    blank: dict[str, Any] = {
        name: [] if isinstance(getattr(shown, name), list) else None
        for name in shown.__struct_fields__
        if not visible(name)
    }
    return msgspec.structs.replace(shown, **blank)
