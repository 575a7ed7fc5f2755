"""Turn everything that can go wrong into problem details (RFC 9457)."""

import math
import re
from collections.abc import Sequence
from typing import Final

import msgspec

from postdate.http.body_problem import field_path
from postdate.words.error import EXPLANATIONS, Code, Refusal
from postdate.words.problem import FieldProblem, Problem

MEDIA_TYPE: Final = b"application/problem+json"
RETRY_AFTER_SECONDS: Final = 1
"""What `Retry-After` says when a refusal worth repeating gives no `retry_after_seconds`."""

_REPEATABLE: Final = frozenset(
    {
        Code.RATE_LIMITED,
        Code.TOO_MANY_OPEN,
        Code.OVERLOADED,
        Code.COMMITS_NOT_DURABLE,
        Code.UNAVAILABLE,
        Code.OUTCOME_UNKNOWN,
        Code.IDEMPOTENCY_IN_FLIGHT,
    }
)
_WHERE: Final = re.compile(r" - at `(?:key` in `)?\$(?P<path>[^`]*)`$")
_UNKNOWN: Final = re.compile(r"^Object contains unknown field `(?P<name>.*)`$", re.DOTALL)
_MISSING: Final = re.compile(r"^Object missing required field `(?P<name>.*)`$", re.DOTALL)
_MAX_SHOWN: Final = 5
"""How many problems of a body stand in `detail`, for people; programs read `problems`."""

Headers = list[tuple[bytes, bytes]]


def encode(refusal: Refusal, request_id: str) -> bytes:
    """Encode a refusal as a problem body."""
    explanation = EXPLANATIONS[refusal.code]
    body = Problem(
        type=f"/docs/errors#{refusal.code}",
        title=explanation.title,
        status=explanation.status,
        detail=refusal.detail,
        code=refusal.code,
        request_id=request_id,
        field=refusal.field,
    )
    if not refusal.extra:
        return msgspec.json.encode(body)
    return msgspec.json.encode({**refusal.extra, **msgspec.to_builtins(body)})


def headers(refusal: Refusal) -> Headers:
    """Return the headers that belong to a refusal beside its content type."""
    found: Headers = []
    if refusal.code is Code.UNAUTHENTICATED:
        found.append((b"www-authenticate", b'Bearer realm="postdate"'))
    if refusal.code in _REPEATABLE:
        seconds = refusal.extra.get("retry_after_seconds", RETRY_AFTER_SECONDS)
        found.append((b"retry-after", str(math.ceil(seconds)).encode()))
    return found


def undecodable(error: Exception, problems: Sequence[FieldProblem] = ()) -> Refusal:
    """Explain why a body or a query could not be decoded, naming the fields.

    The decoder stops at the first problem; `problems` are all that were found on a second look.
    """
    if not isinstance(error, msgspec.ValidationError):
        return Refusal(code=Code.MALFORMED_JSON, detail=_syntax(error))
    first = _first(str(error))
    if not problems:
        return first
    # What the decoder stopped at decides the code, as it always has.
    ordered = sorted(problems, key=lambda each: each.field != (first.field or ""))
    shown = [each.detail for each in ordered[:_MAX_SHOWN]]
    if len(ordered) > _MAX_SHOWN:
        shown.append(f"And {len(ordered) - _MAX_SHOWN} more.")
    return Refusal(
        ordered[0].code, " ".join(shown), ordered[0].field or None, {"problems": ordered}
    )


def _first(text: str) -> Refusal:
    where = _WHERE.search(text)
    path = where["path"].lstrip(".") if where else ""
    reason = text[: where.start()] if where else text
    if unknown := _UNKNOWN.match(reason):
        name = field_path(path, unknown["name"])
        return Refusal(code=Code.UNKNOWN_FIELD, detail=f"`{name}` is not known.", field=name)
    if absent := _MISSING.match(reason):
        name = field_path(path, absent["name"])
        return Refusal(code=Code.INVALID_FIELD, detail=f"`{name}` is required.", field=name)
    return Refusal(code=Code.INVALID_FIELD, detail=f"{reason}.", field=path or None)


def _syntax(error: Exception) -> str:
    match error:
        case UnicodeDecodeError():
            return "The body is not valid UTF-8."
        case _:
            return f"{error}."
