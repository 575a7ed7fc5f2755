"""Idempotency: the same key and request get the same answer, forever or for a while.

Most answers are not stored: they can be derived from the request and the id of what it created.
Where that is impossible, the request and the answer are stored with the key.
"""

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from datetime import datetime
from hashlib import sha256
from typing import Any, Final, TypeVar
from uuid import UUID

import msgspec

from postdate.core import any_json
from postdate.database.connection.driver_id import id_of_bytes
from postdate.intake.store import HASH_BYTES, IdempotencyKey, IdempotencyRow
from postdate.words.error import Code, Refusal, RefusedError, refuse

CREATED: Final = 201
OK: Final = 200

canonical: Final = msgspec.json.Encoder(order="sorted").encode
"""Encodes a request in the one form in which requests are compared."""

_encode: Final = msgspec.json.Encoder().encode


AnswerBody = TypeVar("AnswerBody", bound=msgspec.Struct)


class KeyedRequest(msgspec.Struct, frozen=True, gc=False):
    """A request under a client's key, in the form in which requests are compared."""

    key: IdempotencyKey
    request: bytes
    fingerprint: UUID
    accounts: frozenset[str] | None = None
    """Those of a client that is limited to some: it is not told what others asked for."""


class Granted(msgspec.Struct, frozen=True):
    """The answer to a request that was granted; `body` is encoded once, for the client."""

    body: msgspec.Struct | msgspec.Raw
    subject: UUID | None = None
    status: int = CREATED
    replayed: bool = False

    def body_as(self, kind: type[AnswerBody]) -> AnswerBody:
        """Return the decoded body, whether it is new or stored."""
        if isinstance(self.body, msgspec.Raw):
            return msgspec.json.decode(self.body, type=kind)
        return msgspec.convert(self.body, kind, from_attributes=True)


class Refused(msgspec.Struct, frozen=True, gc=False):
    """The answer to a request that was refused."""

    refusal: Refusal
    replayed: bool = False


class _Kept(msgspec.Struct, frozen=True):
    """The stored request and answer, where the answer cannot be derived."""

    request: msgspec.Raw
    answer: msgspec.Raw
    refused: bool = False


_decode_kept: Final = msgspec.json.Decoder(_Kept).decode
_decode_refusal: Final = msgspec.json.Decoder(Refusal).decode


def keyed(
    key: IdempotencyKey, request: bytes, accounts: frozenset[str] | None = None
) -> KeyedRequest:
    """Return a request, given in its canonical form, with its fingerprint."""
    fingerprint = id_of_bytes(sha256(request).digest()[:HASH_BYTES])
    return KeyedRequest(key, request, fingerprint, accounts)


def kept_under(
    request: KeyedRequest, answer: msgspec.Struct, now: datetime, subject: UUID | None = None
) -> IdempotencyRow:
    """Return the row of a key with a stored answer: a result or a refusal."""
    kept = _Kept(
        msgspec.Raw(request.request), msgspec.Raw(_encode(answer)), isinstance(answer, Refusal)
    )
    return IdempotencyRow(request.key, request.fingerprint, subject, now, _encode(kept))


def kept_answer(row: IdempotencyRow, request: KeyedRequest, status: int) -> Granted | Refused:
    """Answer a repeated request from the stored answer, or refuse it and name what differs."""
    kept = _kept(row)
    if row.fingerprint != request.fingerprint:
        return Refused(reused(kept_differences(row, request)))
    if kept.refused:
        return Refused(_decode_refusal(kept.answer), replayed=True)
    return Granted(kept.answer, row.subject, status, replayed=True)


def kept_body(row: IdempotencyRow, kind: type[AnswerBody]) -> AnswerBody | None:
    """Return the stored answer, or None if it was a refusal."""
    kept = _kept(row)
    return None if kept.refused else msgspec.json.decode(kept.answer, type=kind)


def kept_differences(row: IdempotencyRow, request: KeyedRequest) -> list[str]:
    """Return the fields in which a request differs from the stored one.

    A client that is limited to accounts is told none, because the stored request may be another's.
    """
    if request.accounts is not None:
        return []
    before = any_json.decode(_kept(row).request)
    return differences(before, any_json.decode(request.request))


def _kept(row: IdempotencyRow) -> _Kept:
    if row.kept is None:
        raise TypeError(f"nothing is kept under the key {row.key.hash}")
    return _decode_kept(row.kept)


def reused(differs: Sequence[str]) -> Refusal:
    """Return the refusal of a key that was used for another request."""
    what = f"another {', '.join(differs)}" if differs else "another request"
    return Refusal(
        Code.IDEMPOTENCY_KEY_REUSED,
        f"The key was used with {what}.",
        field=differs[0] if differs else None,
        extra={"differs": list(differs)},
    )


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Return the fields in which two requests differ; null differs from absent."""
    return sorted(
        name
        for name in before.keys() | after.keys()
        if before.get(name, msgspec.UNSET) != after.get(name, msgspec.UNSET)
    )


class OpenKeys:
    """The keys of requests that this process is working on."""

    def __init__(self) -> None:
        self._keys: set[IdempotencyKey] = set()

    @contextmanager
    def hold(self, key: IdempotencyKey) -> Iterator[None]:
        """Refuse a key that is in use; reserve it during this request."""
        if key in self._keys:
            raise key_busy()
        self._keys.add(key)
        try:
            yield
        finally:
            self._keys.discard(key)

    @contextmanager
    def hold_all(self, keys: AbstractSet[IdempotencyKey]) -> Iterator[AbstractSet[IdempotencyKey]]:
        """Reserve many keys; yield the keys that are already in use."""
        busy = keys & self._keys
        free = keys - busy
        self._keys |= free
        try:
            yield busy
        finally:
            self._keys -= free


def key_busy() -> RefusedError:
    """Return the refusal of a key whose first request has no answer yet."""
    return refuse(
        Code.IDEMPOTENCY_IN_FLIGHT,
        "The first request with this key has no answer yet.",
        retry_after_seconds=1,
    )
