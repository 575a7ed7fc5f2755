"""Where a request came from: known to whatever runs on its behalf."""

from contextvars import ContextVar
from typing import Final, NamedTuple


class Origin(NamedTuple):
    """The id of a request and the address at the other end of its connection."""

    request_id: str
    address: str


_current: Final[ContextVar[Origin | None]] = ContextVar("origin", default=None)


def arrive(request_id: str, address: str) -> None:
    """Remember the origin of the request that is being served."""
    _current.set(Origin(request_id, address))


def current() -> Origin | None:
    """Give the origin, if there is a request."""
    return _current.get()
