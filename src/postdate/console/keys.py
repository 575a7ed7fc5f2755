"""Keys: which are used, which end soon; revoke one, or put a new one in its place."""

from datetime import datetime, timedelta
from typing import Final

from postdate.console.action import Action, Field
from postdate.console.same import Same
from postdate.console.visit import Visit
from postdate.model.errors import Code, refuse
from postdate.model.identity import Scope
from postdate.views.key import KeyView

SOON: Final = timedelta(days=14)
"""A key that ends within this time is named."""

OVERLAP_MOST_HOURS: Final = 30 * 24


def status_of(key: KeyView, now: datetime) -> str:
    """Say whether a key works, and whether it will for long."""
    if key.revoked_at is not None and key.revoked_at <= now:
        return "REVOKED"
    if key.expires_at is None:
        return "ACTIVE"
    if key.expires_at <= now:
        return "EXPIRED"
    return "ENDING" if key.expires_at - now < SOON else "ACTIVE"


async def _revoke(visit: Visit) -> str:
    key_id = visit.uuid("key_id")
    await visit.services.keys.revoke(visit.who, key_id)
    return f"Key {key_id} is revoked; every node refuses it within five seconds."


async def _rotate(visit: Visit) -> str:
    done = await visit.services.keys.rotate(visit.who, visit.uuid("key_id"), _overlap(visit))
    return (
        f"The new key, shown only now: {done.issued.key} (id {done.issued.key_id}). The one "
        f"before it works until {done.previous_until:%Y-%m-%d %H:%M:%S} UTC."
    )


def _overlap(visit: Visit) -> float:
    try:
        hours = float(visit.form.get("hours", ""))
    except ValueError:
        hours = -1.0
    if not 0 <= hours <= OVERLAP_MOST_HOURS:
        detail = f"Give 0 to {OVERLAP_MOST_HOURS} hours."
        raise refuse(Code.INVALID_FIELD, detail, "hours")
    return hours * 3600


ACTIONS: Final = (
    Action(
        path="/keys/{key_id:uuid}/revoke",
        scope=Scope.ADMIN,
        title="Revoke key",
        button="Revoke for ever",
        means="Whoever uses it is refused from now on. If it is your own, you are signed out.",
        back=lambda _: "/settings",
        does=_revoke,
        danger=True,
        same=Same("DELETE /keys/{key_id}", "", "key revoke {key_id}"),
    ),
    Action(
        path="/keys/{key_id:uuid}/rotate",
        scope=Scope.ADMIN,
        title="Rotate key",
        button="Make a new key",
        means="A new key with the same rights is shown once; the old one works on for the overlap.",
        back=lambda _: "/settings",
        does=_rotate,
        fields=(
            Field(name="hours", label="Overlap in hours", kind="number", hint="0 ends it at once"),
        ),
        same=Same(
            "POST /keys/{key_id}/rotate", '{"overlap_seconds": 86400}', "key rotate {key_id}"
        ),
    ),
)
