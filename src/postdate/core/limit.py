"""Limits that hold across all processes."""

import msgspec


class Limit(msgspec.Struct, frozen=True, gc=False):
    """How much may run at once, and how much may start in a second, under one name.

    `scope` names what is limited: `lane:<tenant>/<name>`, `tenant:<id>`, `destination:<id>`.
    None means no limit, and costs nothing.
    """

    scope: str
    max_running: int | None = None
    rate_per_second: float | None = None

    @property
    def limited(self) -> bool:
        """Return whether there is anything to hold."""
        return self.max_running is not None or self.rate_per_second is not None

    @property
    def burst(self) -> float:
        """Return how many may start at once after a rest: a tenth of a second's worth, or one."""
        return max(1.0, (self.rate_per_second or 0.0) / 10)
