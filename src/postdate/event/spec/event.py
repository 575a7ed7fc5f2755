"""Events as others see them: types, patterns over types, and the CloudEvents envelope."""

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Final, Literal
from uuid import UUID

import msgspec

from postdate.audit.spec import STAMP
from postdate.core import any_json
from postdate.core.identity import Identity, Scope
from postdate.event.spec.types import EVENT_TYPES
from postdate.words.error import Code, RefusedError, refuse

MAX_PATTERNS: Final = 32
MEDIA_TYPE: Final = "application/cloudevents+json"

_PATTERN: Final = re.compile(r"\*|[a-z_]{1,40}\.(\*|[a-z_]{1,40})")

_KNOWN: Final = frozenset(
    {"*", *EVENT_TYPES, *(f"{name.partition('.')[0]}.*" for name in EVENT_TYPES)}
)
_LIKENESS: Final = 0.65

VISIBLE: Final[Mapping[Scope, tuple[str, ...]]] = {
    Scope.JOBS_READ: ("job.*", "lane.*", "destination.*"),
    Scope.PAYMENTS_READ: ("payment.*", "account.*"),
    Scope.SCHEDULES_READ: ("schedule.*",),
    Scope.ADMIN: ("*",),
}
"""Which types a scope lets its key see."""


class CloudEvent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One event in the envelope of CloudEvents 1.0; `sequence` counts the tenant's events."""

    specversion: Literal["1.0"]
    id: UUID
    source: str
    type: str
    subject: UUID
    time: datetime
    datacontenttype: Literal["application/json"]
    sequence: str
    data: msgspec.Raw
    actor: str | None = None


class Sealed(msgspec.Struct, frozen=True, gc=False):
    """A sealed event of one tenant, with its data as JSON text."""

    position: int
    event_id: UUID
    subject: UUID
    type: str
    time: datetime
    actor: str | None
    data: str | None


class EventFilter(msgspec.Struct, frozen=True, kw_only=True):
    """What a reader wants: types as LIKE patterns, one subject, certain accounts."""

    patterns: list[str]
    subject: UUID | None = None
    accounts: list[str] | None = None


class EventPage(msgspec.Struct, frozen=True):
    """Some events, the position to go on from, and whether there may be more right now."""

    events: list[Sealed]
    position: int
    more: bool


def envelope(event: Sealed, tenant: str) -> CloudEvent:
    """Put an event into its envelope."""
    return CloudEvent(
        specversion="1.0",
        id=event.event_id,
        source=f"/tenants/{tenant}",
        type=event.type,
        subject=event.subject,
        time=event.time.astimezone(UTC),
        datacontenttype="application/json",
        sequence=str(event.position),
        data=msgspec.Raw((without_origin(event).data or "{}").encode()),
        actor=event.actor,
    )


def without_origin(event: Sealed) -> Sealed:
    """Leave out where a request came from: only the auditor needs addresses of people."""
    if event.data is None or f'"{STAMP}"' not in event.data:
        return event
    members = any_json.decode(event.data)
    members.pop(STAMP, None)
    return msgspec.structs.replace(event, data=msgspec.json.encode(members).decode())


def check_patterns(types: Iterable[str], field: str = "types") -> list[str]:
    """Refuse patterns that can match nothing: `payment.completed`, `payment.*` and `*` are fine."""
    given = list(dict.fromkeys(types))
    if len(given) > MAX_PATTERNS:
        raise refuse(Code.INVALID_FIELD, f"A filter has at most {MAX_PATTERNS} types.", field)
    for pattern in given:
        if not _PATTERN.fullmatch(pattern):
            detail = f"{pattern[:80]} is not a type such as payment.completed, payment.* or *."
            raise refuse(Code.INVALID_FIELD, detail, field)
        if pattern not in _KNOWN:
            nearest = next(iter(get_close_matches(pattern, _KNOWN, 1, _LIKENESS)), None)
            hint = f" Did you mean `{nearest}`?" if nearest else ""
            detail = f"There are no events of the type {pattern}.{hint}"
            raise refuse(Code.INVALID_FIELD, detail, field)
    return given


def like_patterns(patterns: Iterable[str]) -> list[str]:
    """Write patterns for SQL's LIKE, where an underscore would match any character."""
    return [pattern.replace("_", r"\_").replace("*", "%") for pattern in patterns]


def visible(actor: Identity, wanted: Iterable[str]) -> list[str]:
    """Return the patterns that match what is wanted and what the key may see."""
    allowed = [pattern for scope in VISIBLE if scope in actor.scopes for pattern in VISIBLE[scope]]
    if not allowed:
        raise _forbidden(allowed)
    patterns = list(wanted) or allowed
    found = [both for asked in patterns for own in allowed if (both := _common_pattern(asked, own))]
    if not found:
        raise _forbidden(allowed)
    return list(dict.fromkeys(found))


def _common_pattern(one: str, other: str) -> str | None:
    """Return the pattern that matches what both match."""
    for narrow, wide in ((one, other), (other, one)):
        if wide in {"*", narrow}:
            return narrow
        if wide.endswith(".*") and narrow.startswith(wide[:-1]):
            return narrow
    return None


def _forbidden(allowed: list[str]) -> RefusedError:
    may = f"only sees {', '.join(allowed)}" if allowed else "sees no events"
    return refuse(Code.FORBIDDEN, f"The key {may}.", scope=Scope.ADMIN)
