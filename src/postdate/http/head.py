"""Parse request headers, and refuse headers that can be read in two ways.

The parser refuses most of them by itself: bare line feeds and carriage returns, folded lines,
lengths that differ, a length beside `Transfer-Encoding`.
"""

import random
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from postdate.words.error import Code, Refusal, refuse

_REQUEST_ID: Final = re.compile(rb"[\x21-\x7e]{1,128}")
_ids: Final = random.Random()
"""Not secret: an id is sent to the client, and is in every log line."""

_TRACEPARENT: Final = re.compile(rb"00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")

ONCE: Final = frozenset(
    {
        b"authorization",
        b"content-encoding",
        b"content-length",
        b"content-type",
        b"host",
        b"idempotency-key",
        b"transfer-encoding",
        b"x-internal-auth",
    }
)
"""Headers that may occur once: of two, a proxy might choose the other one."""

TRANSFER_ENCODING: Final = b"transfer-encoding"


def ambiguity(headers: Sequence[tuple[bytes, bytes]]) -> Refusal | None:
    """Return why a head can be read in two ways; None when it cannot."""
    counts = Counter(name for name, _ in headers)
    for name in sorted(ONCE):
        if counts[name] > 1:
            shown = name.decode()
            return Refusal(Code.AMBIGUOUS_REQUEST, f"The header `{shown}` is given twice.", shown)
    coded = dict(headers).get(TRANSFER_ENCODING)
    if coded is None:
        return None
    if b"content-length" in counts or coded.strip().lower() != b"chunked":
        detail = "A `Transfer-Encoding` must be `chunked`, without a `Content-Length`."
        return Refusal(Code.AMBIGUOUS_REQUEST, detail, TRANSFER_ENCODING.decode())
    return None


def request_id(headers: Mapping[bytes, bytes]) -> str:
    """Return the request id that the client sent, or a new one."""
    given = headers.get(b"x-request-id")
    if given is not None and _REQUEST_ID.fullmatch(given):
        return given.decode("ascii")
    return f"{_ids.getrandbits(128):032x}"


def traceparent(headers: Mapping[bytes, bytes]) -> str | None:
    """Return the trace that a request belongs to, where it names one."""
    given = headers.get(b"traceparent")
    return given.decode("ascii") if given and _TRACEPARENT.fullmatch(given) else None


def bearer(headers: Mapping[bytes, bytes]) -> str:
    """Return the key that a request came with, or refuse it."""
    scheme, _, key = headers.get(b"authorization", b"").partition(b" ")
    key = key.strip()
    if scheme.lower() != b"bearer" or not key or not key.isascii():
        raise refuse(Code.UNAUTHENTICATED, "Send `Authorization: Bearer <key>`.")
    return key.decode("ascii")
