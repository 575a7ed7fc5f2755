"""Limits that hold across all processes."""

from typing import Final, Protocol

import msgspec


class HasLimits(Protocol):
    """What has limits of its own: a lane, a destination."""

    @property
    def max_running(self) -> int | None:
        """Return how many may run at once."""
        ...

    @property
    def rate_per_second(self) -> float | None:
        """Return how many may start in a second."""
        ...


class Limit(msgspec.Struct, frozen=True, gc=False):
    """How much may run at once, and how much may start in a second, under one name.

    `scope` names what is limited: `lane:<tenant>/<name>`, `tenant:<id>`, `destination:<id>`.
    None means no limit, and costs nothing.
    """

    scope: str
    max_running: int | None = None
    rate_per_second: float | None = None

    @classmethod
    def of(cls, scope: str, limited: HasLimits) -> "Limit":
        """Return the limits of a thing, under one name."""
        return cls(scope, limited.max_running, limited.rate_per_second)

    @property
    def paced(self) -> bool:
        """Return whether starts are counted."""
        return self.rate_per_second is not None

    @property
    def limited(self) -> bool:
        """Return whether there is anything to hold."""
        return self.max_running is not None or self.rate_per_second is not None

    @property
    def burst(self) -> float:
        """Return how many may start at once after a rest: a tenth of a second's worth, or one."""
        return max(1.0, (self.rate_per_second or 0.0) / 10)


LIMITS: Final = ("max_running", "rate_per_second")
"""The fields of a thing that has limits."""


def limit_texts(limited: HasLimits) -> list[str]:
    """Say what limits a thing, each limit in a few words."""
    texts = []
    if limited.max_running is not None:
        texts.append(f"{limited.max_running} at once")
    if limited.rate_per_second is not None:
        texts.append(f"{limited.rate_per_second:g} a second")
    return texts
