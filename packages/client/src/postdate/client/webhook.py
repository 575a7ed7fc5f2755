"""Check that a call which arrived is one of ours (Standard Webhooks)."""

import hmac
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from postdate.client.errors import SignatureError
from postdate.words.signature import secret_bytes, sign

TOLERANCE_SECONDS: Final = 300.0


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """A call that is genuine. `id` is the job's and the same at each attempt: act once per id."""

    id: str
    timestamp: int
    attempt: int | None
    body: bytes

    def json(self) -> Any:
        """Read the body as JSON."""
        return msgspec.json.decode(self.body)


def verify_webhook(
    body: bytes,
    headers: Mapping[str, str],
    secret: str | Sequence[str],
    *,
    tolerance_seconds: float = TOLERANCE_SECONDS,
) -> Delivery:
    """Check the signature over the raw body and the age of a call, or raise `SignatureError`.

    Give several secrets while one is being rotated.
    """
    _raw(body)
    keys = [_key(each) for each in ([secret] if isinstance(secret, str) else secret)]
    found = {name.lower(): value for name, value in headers.items()}
    message_id, signatures = _header(found, "webhook-id"), _header(found, "webhook-signature")
    stamp = _header(found, "webhook-timestamp")
    if not stamp.isascii() or not stamp.isdigit():
        raise SignatureError("webhook-timestamp is no number")
    if abs(time.time() - int(stamp)) > tolerance_seconds:
        raise SignatureError(f"the call is older than {tolerance_seconds:g} s, or the clock wrong")
    expected = sign(keys, message_id, int(stamp), body).split()
    if not any(
        hmac.compare_digest(one.encode(), other.encode())
        for one in expected
        for other in signatures.split()
    ):
        raise SignatureError("the signature is of another secret, or the body was changed")
    attempt = found.get("postdate-attempt", "")
    return Delivery(
        id=message_id,
        timestamp=int(stamp),
        attempt=int(attempt) if attempt.isdigit() else None,
        body=body,
    )


def _raw(body: object) -> None:
    if not isinstance(body, bytes):
        raise TypeError("give the body as it arrived, in bytes: a decoded one may differ")


def _key(secret: str) -> bytes:
    found = secret_bytes(secret)
    if found is None:
        raise ValueError("that is no signing secret: it begins with whsec_")
    return found


def _header(headers: Mapping[str, str], name: str) -> str:
    if not headers.get(name):
        raise SignatureError(f"the header {name} is missing")
    return headers[name]
