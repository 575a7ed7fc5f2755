"""Actions on an API key: revoke, rotate."""

from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

import msgspec

from postdate.console.action import Action, Field, create_once
from postdate.console.equivalent_command import EquivalentCommand, Typed
from postdate.console.page_request import PageRequest
from postdate.core.identity import Scope
from postdate.intake.create_once import Shown
from postdate.key.change.key import RotatedTenantKey
from postdate.key.view import KeyView
from postdate.words.error import Code, refuse

SOON: Final = timedelta(days=14)
"""A key that ends within this time is named."""

MAX_OVERLAP_HOURS: Final = 30 * 24


def status_of(key: KeyView, now: datetime) -> str:
    """Return whether a key works, and whether it will for long."""
    if key.revoked_at is not None and key.revoked_at <= now:
        return "REVOKED"
    if key.expires_at is None:
        return "ACTIVE"
    if key.expires_at <= now:
        return "EXPIRED"
    return "ENDING" if key.expires_at - now < SOON else "ACTIVE"


async def _revoke(request: PageRequest) -> str:
    key_id = request.uuid("key_id")
    await request.services.key.change.revoke(request.actor, key_id)
    return f"Key {key_id} is revoked; every node refuses it within five seconds."


class _RotatedKey(msgspec.Struct, frozen=True):
    """A rotation as it is remembered: repeating it tells no key again."""

    key_id: UUID
    previous_until: datetime
    key: str | None = None


async def _rotate(request: PageRequest) -> str:
    """Make a new key, once for each form: sent twice, it must not make two."""
    key_id, overlap_seconds = request.uuid("key_id"), _overlap(request)
    keys = request.services.key.change
    answer = await create_once(
        request,
        "key.rotate",
        {"key_id": str(key_id), "overlap_seconds": overlap_seconds},
        lambda remember: keys.rotate(request.actor, key_id, overlap_seconds, remember),
        _shown,
    )
    made = answer.body_as(_RotatedKey)
    until = f"The old key works until {made.previous_until:%Y-%m-%d %H:%M:%S} UTC."
    if made.key is None:
        return f"This form was already submitted and created the key {made.key_id}. {until}"
    return f"The new key, shown only now: {made.key} (id {made.key_id}). {until}"


def _shown(done: RotatedTenantKey) -> Shown:
    made = _RotatedKey(done.issued.key_id, done.previous_until, done.issued.key)
    return Shown(made, msgspec.structs.replace(made, key=None))


def _overlap(request: PageRequest) -> float:
    try:
        hours = float(request.form.get("hours", ""))
    except ValueError:
        hours = -1.0
    if not 0 <= hours <= MAX_OVERLAP_HOURS:
        detail = f"Give 0 to {MAX_OVERLAP_HOURS} hours."
        raise refuse(Code.INVALID_FIELD, detail, "hours")
    return hours * 3600


def _overlap_body(typed: Typed) -> dict[str, Any]:
    hours = typed["hours"]
    return {"overlap_seconds": hours * 3600 if isinstance(hours, int | float) else hours}


ACTIONS: Final = (
    Action(
        path="/keys/{key_id:uuid}/revoke",
        scope=Scope.ADMIN,
        limited="filtered",
        title="Revoke key",
        button="Revoke permanently",
        means="Requests with it are refused from now on. If it is your own, you are signed out.",
        back="/settings",
        does=_revoke,
        danger=True,
        same=EquivalentCommand(operation="revoke_key", method_name="keys.revoke"),
    ),
    Action(
        path="/keys/{key_id:uuid}/rotate",
        scope=Scope.ADMIN,
        limited="filtered",
        title="Rotate key",
        button="Create new key",
        means="A new key with the same rights is shown once; the old one works for the overlap.",
        back="/settings",
        does=_rotate,
        fields=(
            Field(
                name="hours",
                label="Overlap in hours",
                kind="number",
                hint="0 ends the old key immediately",
            ),
        ),
        same=EquivalentCommand(
            operation="rotate_key", method_name="keys.rotate", body=_overlap_body
        ),
    ),
)
