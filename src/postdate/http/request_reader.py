"""Read a request within its limits: bytes, depth, JSON, query, headers."""

import asyncio
import re
from collections.abc import Mapping
from functools import cache
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl

import msgspec
from msgspec import inspect
from starlette.types import Message, Receive

from postdate.core import any_json
from postdate.http import problem
from postdate.http.body_problem import ExplanationBudget, find_problems
from postdate.http.deadline import Deadline
from postdate.http.exchange import UNREADABLE
from postdate.http.limit import RequestLimits
from postdate.words.error import Code, RefusedError, refuse
from postdate.words.problem import FieldProblem

Q = TypeVar("Q", bound=msgspec.Struct)

MAX_QUERY_PARAMETERS: Final = 50
"""The most query parameters of a request; no route has as many."""

FRESHNESS: Final = b"postdate-freshness"
"""Given with the answer to a change; a read that sends it back is no older than the change."""

_JSON: Final = b"application/json"
_FRESHNESS: Final = re.compile(rb"[0-9a-f]{1,15}")
_KEY: Final = re.compile(rb"[\x20-\x7e]{1,255}")
_NUL: Final = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
_HALF_PAIR: Final = re.compile(
    rb"(?<!\\)(?:\\\\)*(?P<half>\\u[dD][89abAB][0-9a-fA-F]{2})(?!\\u[dD][c-fC-F])"
)


async def body(
    receive: Receive, headers: Mapping[bytes, bytes], max_bytes: int, limits: RequestLimits
) -> bytes:
    """Receive the whole body, or refuse it for its size, pace or type."""
    declared = headers.get(b"content-length")
    if declared is None and b"transfer-encoding" not in headers:
        return b""
    size = int(declared) if declared is not None else None
    if size == 0:
        return b""
    if size is not None and size > max_bytes:
        raise _too_large(max_bytes)
    _check_media_type(headers)
    try:
        with Deadline(limits.receive_seconds):
            return await _collect(receive, size, max_bytes)
    except TimeoutError:
        raise _too_slow(limits) from None


def check_arrived(data: bytes, headers: Mapping[bytes, bytes], max_bytes: int) -> None:
    """Refuse a body that came with its head for its size or type."""
    if len(data) > max_bytes:
        raise _too_large(max_bytes)
    plain = headers.get(b"content-type") == _JSON and b"content-encoding" not in headers
    if not plain and (data or b"transfer-encoding" in headers):
        _check_media_type(headers)


async def _collect(receive: Receive, size: int | None, max_bytes: int) -> bytes:
    chunks: list[bytes] = []
    received, more = 0, True
    # The end of a body may come in a message of its own: do not wait for that one.
    while more and received != size:
        message = await _next(receive)
        chunks.append(message["body"])
        received, more = received + len(message["body"]), message.get("more_body", False)
        if received > max_bytes:
            raise _too_large(max_bytes)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


async def _next(receive: Receive) -> Message:
    message = await receive()
    if message["type"] == "http.disconnect":
        # The client may have ended only its own side: answer, in case it is there.
        detail = message.get(UNREADABLE) or "The body ended before it was complete."
        raise refuse(Code.BODY_INCOMPLETE, detail)
    return message


def _too_large(max_bytes: int) -> RefusedError:
    return refuse(
        Code.BODY_TOO_LARGE, f"This route takes at most {max_bytes} bytes.", max_bytes=max_bytes
    )


def _too_slow(limits: RequestLimits) -> RefusedError:
    detail = f"The body did not arrive within {limits.receive_seconds:g} s."
    return refuse(Code.RECEIVE_TIMEOUT, detail)


def _check_media_type(headers: Mapping[bytes, bytes]) -> None:
    given = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if given != _JSON:
        raise refuse(Code.UNSUPPORTED_MEDIA_TYPE, "The body must be application/json.")
    if headers.get(b"content-encoding", b"identity").lower() != b"identity":
        raise refuse(Code.UNSUPPORTED_MEDIA_TYPE, "The body must not be compressed.")


def decode(
    raw: bytes, decoder: msgspec.json.Decoder[Any], depth: int, *, whole: bool = False
) -> Any:
    """Decode a body strictly; an empty one counts as an object without fields.

    A shape that keeps parts of the body as they came has the `whole` of it read: a number that is
    too large for anybody must not come up later.
    """
    # Openings bound the depth from above, which settles nearly every body at once.
    if raw.count(b"{") + raw.count(b"[") > depth:
        check_depth(raw, depth)
    # PostgreSQL stores no U+0000 in text or JSON: refuse it here, not as a failed insert.
    if b"\\u0000" in raw and _NUL.search(raw):
        raise refuse(Code.INVALID_FIELD, "The character U+0000 cannot be stored.")
    try:
        decoded = decoder.decode(raw or b"{}")
        if whole and raw:
            any_json.decode(raw)
    except msgspec.ValidationError as error:
        raise RefusedError(problem.undecodable(error, _problems(raw, decoder.type))) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        if half := _HALF_PAIR.search(raw):
            # The decoder says "truncated" where the other half would have to follow.
            detail = f"{half['half'].decode()} is half of a surrogate pair: no character."
            raise refuse(Code.MALFORMED_JSON, detail) from None
        raise RefusedError(problem.undecodable(error)) from None
    return decoded


def _problems(raw: bytes, shape: Any) -> list[FieldProblem]:
    """Check a refused body again for every problem in it, if it is not too large."""
    budget = ExplanationBudget()
    try:
        if not budget.admits(raw):
            return []
        return find_problems(any_json.decode(raw or b"{}"), shape, budget)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return []


def keeps_raw(found: inspect.Type) -> bool:
    """Return whether a shape keeps any part of a body undecoded."""
    match found:
        case inspect.RawType():
            return True
        case inspect.StructType(fields=fields):
            return any(keeps_raw(field.type) for field in fields)
        case inspect.UnionType(types=types):
            return any(map(keeps_raw, types))
        case inspect.Metadata(type=inner) | inspect.ListType(item_type=inner):
            return keeps_raw(inner)
        case _:
            return False


def check_depth(raw: bytes, max_depth: int) -> None:
    """Refuse nesting beyond a depth before any parser recurses into it."""
    brackets = any_json.brackets(raw)
    for _ in range(max_depth):
        inner = brackets.replace(b"()", b"")
        if len(inner) == len(brackets):
            break
        brackets = inner
    # What is left is deeper than allowed or not balanced; the decoder names the latter.
    if b"()" in brackets or brackets.count(b"(") > max_depth:
        raise refuse(Code.BODY_TOO_DEEP, f"The body nests deeper than {max_depth} levels.")


def query(raw: bytes, shape: type[Q]) -> Q:
    """Decode the query string strictly: each parameter known and given once."""
    values: dict[str, str] = {}
    for name, value in _pairs(raw):
        if name in values:
            raise refuse(Code.INVALID_FIELD, f"`{name}` is given more than once.", name)
        if "\x00" in value:
            raise refuse(Code.INVALID_FIELD, "The character U+0000 cannot be stored.", name)
        if ":" not in value and name in _instants(shape):
            # Converting from text, msgspec would take a bare number for seconds since 1970.
            raise refuse(Code.INVALID_FIELD, "Expected an RFC 3339 date and time.", name)
        values[name] = value
    try:
        return msgspec.convert(values, shape, strict=False)
    except msgspec.ValidationError as error:
        problems = find_problems(values, shape, strict=False)
        raise RefusedError(problem.undecodable(error, problems)) from None


@cache
def _instants(shape: type) -> frozenset[str]:
    """Return the parameters that are instants."""
    found = inspect.type_info(shape)
    fields = found.fields if isinstance(found, inspect.StructType) else ()
    return frozenset(field.encode_name for field in fields if _is_instant(field.type))


def _is_instant(found: inspect.Type) -> bool:
    match found:
        case inspect.Metadata(type=inner):
            return _is_instant(inner)
        case inspect.UnionType(types=types):
            return any(map(_is_instant, types))
        case _:
            return isinstance(found, inspect.DateTimeType)


def _pairs(raw: bytes) -> list[tuple[str, str]]:
    if not raw:
        return []
    try:
        return parse_qsl(
            raw.decode("ascii"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=MAX_QUERY_PARAMETERS,
        )
    except UnicodeDecodeError:
        raise refuse(Code.INVALID_FIELD, "The query is not percent-encoded UTF-8.") from None
    except ValueError:
        detail = f"The query has more than {MAX_QUERY_PARAMETERS} parameters."
        raise refuse(Code.INVALID_FIELD, detail) from None


def idempotency_key(headers: Mapping[bytes, bytes], *, required: bool) -> str | None:
    """Read the Idempotency-Key header."""
    given = headers.get(b"idempotency-key")
    if given is None:
        if required:
            raise refuse(Code.IDEMPOTENCY_KEY_MISSING, "This route needs an Idempotency-Key.")
        return None
    if not _KEY.fullmatch(given):
        detail = "The Idempotency-Key must be 1 to 255 printable ASCII characters."
        raise refuse(Code.IDEMPOTENCY_KEY_INVALID, detail)
    return given.decode("ascii")


def freshness(headers: Mapping[bytes, bytes]) -> int:
    """Return how far a replica must have replayed to answer; an unknown value counts as none."""
    given = headers.get(FRESHNESS)
    return int(given, 16) if given is not None and _FRESHNESS.fullmatch(given) else 0


def bounded(receive: Receive, limits: RequestLimits) -> Receive:
    """Wrap `receive` for pages, which read their own bodies, with the same size and pace."""
    loop = asyncio.get_running_loop()
    left, deadline = limits.body_bytes, loop.time() + limits.receive_seconds
    complete = False

    async def within() -> Message:
        nonlocal left, complete
        if complete:
            return await receive()
        try:
            async with asyncio.timeout_at(deadline):
                message = await _next(receive)
        except TimeoutError:
            raise _too_slow(limits) from None
        left -= len(message.get("body", b""))
        complete = not message.get("more_body")
        if left < 0:
            raise _too_large(limits.body_bytes)
        return message

    return within
