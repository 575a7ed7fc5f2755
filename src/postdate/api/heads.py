"""Refuse heads that can be read in two ways.

The parser refuses most of them by itself: bare line feeds and carriage returns, folded lines,
lengths that differ, a length beside `Transfer-Encoding`.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from postdate.model.errors import Code, Refusal

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
"""Headers that say one thing; a proxy and we might choose another of two."""

TRANSFER_ENCODING: Final = b"transfer-encoding"


def ambiguity(headers: Sequence[tuple[bytes, bytes]]) -> Refusal | None:
    """Say why a head can be read in two ways, or None."""
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
