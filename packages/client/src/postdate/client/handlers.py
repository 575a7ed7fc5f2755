"""Which function does which work: by lane, and within a lane by kind."""

from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from postdate.client.models.leases import Lease
from postdate.client.running_job import AsyncRunningJob, RunningJob

KIND: Final = "kind"
"""The field of a job's `metadata` that says which function it is for."""

Function = Callable[[RunningJob], Any] | Callable[[AsyncRunningJob], Awaitable[Any]]
F = TypeVar("F", bound=Function)


class Handlers:
    """The functions of a worker."""

    def __init__(self) -> None:
        self._functions: dict[tuple[str, str | None], Function] = {}

    @property
    def lanes(self) -> list[str]:
        """List the lanes that somebody works for."""
        return list(dict.fromkeys(lane for lane, _ in self._functions))

    def add(self, lane: str, kind: str | None, function: Function) -> None:
        """Register a function; a second one for the same would never run."""
        if not callable(function):
            raise TypeError(f"a handler is a function, not {function!r}")
        known = self._functions.setdefault((lane, kind), function)
        if known is not function:
            work = f"the kind {kind!r} in lane {lane!r}" if kind else f"lane {lane!r}"
            raise ValueError(f"{work} has a handler already: {_name(known)}")

    def find(self, lane: str, lease: Lease) -> Function | None:
        """Find the function for a job: that of its kind, else the one for the whole lane."""
        kind = kind_of(lease)
        return self._functions.get((lane, kind)) or self._functions.get((lane, None))


def kind_of(lease: Lease) -> str | None:
    """Read the kind of a job; it has none unless its metadata says so."""
    found = (lease.metadata or {}).get(KIND)
    return found if isinstance(found, str) else None


def _name(function: Function) -> str:
    return getattr(function, "__qualname__", repr(function))
