"""Idempotency: the same key and body give the same answer, for ever or for a while."""

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from typing import Any

import msgspec

from postdate.model.error import Code, Refusal, RefusedError, refuse
from postdate.store.idempotency.idempotency import Kept, Key

_encode = msgspec.json.Encoder(order="sorted").encode


class Replay(msgspec.Struct, frozen=True):
    """A stored answer, to be given again."""

    status: int
    response: bytes


class RaceError(Exception):
    """Another node answered one of these keys between looking and writing: look again."""


def canonical(request: Any) -> bytes:
    """Write a request in the one form in which requests are compared."""
    return _encode(request)


def judge(kept: Kept, request: bytes) -> Replay | Refusal:
    """Decide what a known key means: the stored answer, or a refusal naming what differs."""
    if kept.request == request:
        return Replay(kept.status, kept.response)
    differs = differences(msgspec.json.decode(kept.request), msgspec.json.decode(request))
    return Refusal(
        Code.IDEMPOTENCY_KEY_REUSED,
        f"The key was used with another {', '.join(differs)}.",
        field=differs[0],
        extra={"differs": differs},
    )


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Name the fields in which two requests differ; one that is null is not one that is absent."""
    return sorted(
        name
        for name in before.keys() | after.keys()
        if before.get(name, msgspec.UNSET) != after.get(name, msgspec.UNSET)
    )


class InFlight:
    """The keys this process is answering just now."""

    def __init__(self) -> None:
        self._keys: set[Key] = set()

    @contextmanager
    def hold(self, key: Key) -> Iterator[None]:
        """Refuse a key that is still being answered; hold it while this request is."""
        if key in self._keys:
            raise in_flight()
        self._keys.add(key)
        try:
            yield
        finally:
            self._keys.discard(key)

    @contextmanager
    def hold_all(self, keys: AbstractSet[Key]) -> Iterator[AbstractSet[Key]]:
        """Hold many keys; gives those that are being answered already, which stay as they are."""
        busy = keys & self._keys
        free = keys - busy
        self._keys |= free
        try:
            yield busy
        finally:
            self._keys -= free


def in_flight() -> RefusedError:
    """Make the refusal for a key whose first answer is still under way."""
    return refuse(
        Code.IDEMPOTENCY_IN_FLIGHT,
        "The first request with this key has no answer yet.",
        retry_after_seconds=1,
    )
