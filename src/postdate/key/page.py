"""The buttons of an API key: create, rotate, revoke; and how a key stands."""

from datetime import datetime, timedelta
from typing import Final

from postdate.console.button import Button
from postdate.console.operation import Answer
from postdate.console.page_request import PageRequest
from postdate.console.render import spoken
from postdate.console.subject import Subject, SubjectFacts
from postdate.core.identity import Scope
from postdate.key.spec import KeyView

SOON: Final = timedelta(days=14)
"""A key that ends within this time is named."""


def status_of(key: KeyView, now: datetime) -> str:
    """Return whether a key works, and whether it will for long."""
    if key.revoked_at is not None and key.revoked_at <= now:
        return "REVOKED"
    if key.expires_at is None:
        return "ACTIVE"
    if key.expires_at <= now:
        return "EXPIRED"
    return "ENDING" if key.expires_at - now < SOON else "ACTIVE"


async def _read_key(request: PageRequest) -> SubjectFacts:
    await request.learn_names()
    name = request.names.get(str(request.uuid("key_id")))
    return [("What it is for", name)] if name else []


def _created(_: PageRequest, made: Answer) -> str:
    if made.get("key"):
        return f"The new key, shown only now: {made['key']} (id {made['key_id']})."
    return f"This form was already submitted and created the key {made['key_id']}."


def _rotated(request: PageRequest, made: Answer) -> str:
    until = f"The old key works until {spoken(made['previous_until'])}."
    return f"{_created(request, made)} {until}"


_SUBJECT: Final = Subject(Scope.ADMIN, _read_key)

BUTTONS: Final = (
    Button(
        "create_key",
        means="The key is shown once. It may do only what its scopes allow.",
        confirm="Create key",
        back="/settings",
        done=_created,
    ),
    Button(
        "revoke_key",
        means="Requests with it are refused from now on. If it is your own, you are signed out.",
        confirm="Revoke permanently",
        danger=True,
        subject=_SUBJECT,
        back="/settings",
        done="Key {key_id} is revoked; every node refuses it within five seconds.",
    ),
    Button(
        "rotate_key",
        means="A new key with the same rights is shown once; the old one works for the overlap.",
        confirm="Create new key",
        subject=_SUBJECT,
        back="/settings",
        done=_rotated,
    ),
)
