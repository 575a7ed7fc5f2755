"""A spike for a fleet: many items due at one instant, how late each is, and when all are done.

Work waits in one queue, first come first served, and leaves it at the rate of whatever is slowest:
the processes, their windows of open calls, or the database. Rates are taken as steady, so that the
lateness of the nth item follows from its number; a test steps through the same queue item by item.
"""

import msgspec

from postdate.words.error import Code, refuse


class Fleet(msgspec.Struct, frozen=True, kw_only=True):
    """What runs: rates in items a second, as measured by `postdate bench` on such a machine."""

    processes: int
    process_per_second: float
    database_per_second: float
    """What one database does for all processes together."""
    window: int | None = None
    """How many calls one process has open; None where nothing is called."""
    call_ms: float = 0.0
    """How long a call takes."""

    def limits(self) -> dict[str, float]:
        """Return what each part could do alone, in items a second."""
        found = {
            "processes": self.processes * self.process_per_second,
            "database": self.database_per_second,
        }
        if self.window is not None and self.call_ms > 0:
            found["open calls"] = self.processes * self.window / (self.call_ms / 1000)
        return found


class Spike(msgspec.Struct, frozen=True, kw_only=True):
    """Items that are due within `spread_seconds`, beside a steady stream."""

    items: int
    spread_seconds: float = 0.0
    steady_per_second: float = 0.0


class SpikeForecast(msgspec.Struct, frozen=True, kw_only=True):
    """How the fleet takes it."""

    per_second: float
    limited_by: str
    p50_seconds: float
    p99_seconds: float
    worst_seconds: float
    waiting: int
    """The most that waits at once."""
    over_after_seconds: float | None
    """When nothing waits any more; None: the steady stream alone is too much."""
    needed_processes: int | None
    """Processes with which nothing is later than a second; None: not by processes alone."""


def simulate_spike(fleet: Fleet, spike: Spike) -> SpikeForecast:
    """Return how late a spike is, and what would keep it within a second."""
    _check(fleet, spike)
    limits = fleet.limits()
    limited_by = min(limits, key=lambda name: limits[name])
    rate = limits[limited_by]
    worst = _worst(rate, spike)
    room = rate - spike.steady_per_second
    return SpikeForecast(
        per_second=rate,
        limited_by=limited_by,
        p50_seconds=round(worst * 0.5, 3),
        p99_seconds=round(worst * 0.99, 3),
        worst_seconds=round(worst, 3),
        waiting=round(worst * rate),
        over_after_seconds=round(spike.spread_seconds + worst * rate / room, 3)
        if room > 0
        else None,
        needed_processes=_needed(fleet, spike),
    )


def _worst(rate: float, spike: Spike) -> float:
    """Return the lateness of the last item: what came until then, less what was done."""
    come = spike.items + spike.steady_per_second * spike.spread_seconds
    return max(0.0, come / rate - spike.spread_seconds)


def _needed(fleet: Fleet, spike: Spike) -> int | None:
    """Return how many processes keep the worst within a second, if processes can."""
    come = spike.items + spike.steady_per_second * spike.spread_seconds
    rate = max(come / (spike.spread_seconds + 1), spike.steady_per_second)
    each = min(
        limit / fleet.processes for name, limit in fleet.limits().items() if name != "database"
    )
    return None if rate > fleet.database_per_second else max(1, -int(-rate // each))


def _check(fleet: Fleet, spike: Spike) -> None:
    for name, value in (
        ("processes", fleet.processes),
        ("process_per_second", fleet.process_per_second),
        ("database_per_second", fleet.database_per_second),
        ("window", 1 if fleet.window is None else fleet.window),
    ):
        if value <= 0:
            raise refuse(Code.INVALID_FIELD, f"{name} must be above 0.", name)
    for name, value in (
        ("items", spike.items),
        ("spread_seconds", spike.spread_seconds),
        ("steady_per_second", spike.steady_per_second),
        ("call_ms", fleet.call_ms),
    ):
        if value < 0:
            raise refuse(Code.INVALID_FIELD, f"{name} cannot be negative.", name)
