"""The work of a computation, counted in steps of about a microsecond and never in time.

A computation beside the event loop has an allowance: when it is used up, it ends, and begins again
where it can be killed. Without an allowance nothing is counted.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import local


class TooMuchWorkError(Exception):
    """The allowance is used up."""


class Allowance:
    """The steps that are left to a computation."""

    __slots__ = ("left",)

    def __init__(self, steps: int) -> None:
        self.left = steps

    def spend(self, steps: int) -> None:
        """Count steps, before or while they are taken."""
        self.left -= steps
        if self.left < 0:
            raise TooMuchWorkError


class _Current(local):
    allowance: Allowance | None = None


_current = _Current()


@contextmanager
def allowed(steps: int) -> Iterator[None]:
    """Give what this thread computes meanwhile an allowance."""
    before, _current.allowance = _current.allowance, Allowance(steps)
    try:
        yield
    finally:
        _current.allowance = before


def spend(steps: int) -> None:
    """Count steps of whatever this thread computes."""
    if _current.allowance is not None:
        _current.allowance.spend(steps)
