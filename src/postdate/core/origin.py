"""Where a request came from: known to whatever runs on its behalf, log lines too."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Final

PRIMARY: Final = -1
"""Wanted before a change: no replica is fresh enough."""


@dataclass(slots=True)
class Origin:
    """The id of a request, the address at the other end, and the tenant once it is known."""

    request_id: str
    address: str
    tenant: str | None = None
    # What the client has seen: a read must not be older than that.
    required_position: int = 0
    # Whether something was read from a replica.
    stale: bool = False


_current: Final[ContextVar[Origin | None]] = ContextVar("origin", default=None)


def arrive(request_id: str, address: str) -> Origin:
    """Remember the origin of the request that is being served."""
    origin = Origin(request_id, address)
    _current.set(origin)
    return origin


def current() -> Origin | None:
    """Return the origin, if there is a request."""
    return _current.get()


def stamp() -> dict[str, str] | None:
    """Return what an event says of where it was caused."""
    came = _current.get()
    return None if came is None else {"request_id": came.request_id, "address": came.address}


def wanted() -> int:
    """Return the position in the log that a read must have reached: 0 for any, or PRIMARY.

    Only requests that change nothing may read what is old.
    """
    came = _current.get()
    return PRIMARY if came is None else came.required_position


@contextmanager
def apart() -> Iterator[Origin]:
    """Let what is read now be remembered apart: it may be read for several requests."""
    came = _current.get()
    own = Origin("", "") if came is None else replace(came, stale=False)
    before = _current.set(own)
    try:
        yield own
    finally:
        _current.reset(before)


@contextmanager
def resumed(stamped: Mapping[str, str] | None) -> Iterator[None]:
    """Let what runs now say what an earlier request has caused; it reads nothing old."""
    came = None
    if stamped is not None:
        came = Origin(stamped["request_id"], stamped["address"], required_position=PRIMARY)
    before = _current.set(came)
    try:
        yield
    finally:
        _current.reset(before)


def read_from(*, replica: bool) -> None:
    """Remember that something was read from a replica: what it says may be old."""
    if replica and (came := _current.get()) is not None:
        came.stale = True
