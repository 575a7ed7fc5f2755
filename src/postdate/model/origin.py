"""Where a request came from: known to whatever runs on its behalf, log lines too."""

from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final


@dataclass(slots=True)
class Origin:
    """The id of a request, the address at the other end, and the tenant once it is known."""

    request_id: str
    address: str
    tenant: str | None = None


_current: Final[ContextVar[Origin | None]] = ContextVar("origin", default=None)


def arrive(request_id: str, address: str) -> Origin:
    """Remember the origin of the request that is being served."""
    origin = Origin(request_id, address)
    _current.set(origin)
    return origin


def current() -> Origin | None:
    """Give the origin, if there is a request."""
    return _current.get()


def stamp() -> dict[str, str] | None:
    """Give what an event says of where it was caused."""
    came = _current.get()
    return None if came is None else {"request_id": came.request_id, "address": came.address}


def identified(tenant: str) -> None:
    """Remember whose request it is."""
    if (origin := _current.get()) is not None:
        origin.tenant = tenant
