"""What a run will do, all of it drawn from one seed: how much life, which faults, when."""

import random
from collections.abc import Sequence
from typing import Final

import msgspec

_WEIGHTS: Final = {
    "kill": 1.0,
    "zombie": 2.0,
    "postmaster": 1.3,
    "backend": 1.0,
    "cut": 1.0,
    "silence": 1.0,
    "refuse": 1.0,
    "lock": 1.0,
    "broker": 1.0,
    "hold": 1.0,
    "log": 0.7,
    "disk": 0.7,
    "clock": 0.7,
    "half_open": 1.0,
    "one_way": 1.0,
    "revoke": 0.7,
    "table": 1.5,
    "supervisor": 0.7,
    "guest": 0.7,
    "restart": 0.3,
    "apis": 0.5,
}
FAULTS: Final = tuple(_WEIGHTS)
"""Every fault: what each does is told in `nemesis` and `side_fault`."""

LASTING: Final = frozenset({"disk", "clock", "revoke", "table"})
"""Faults of which every third lasts long enough for `/readyz` to have to tell of it."""

LONG_SECONDS: Final = (9.0, 14.0)

CALM_SECONDS: Final = 3.0
"""How long the run goes undisturbed at its beginning."""

ENDED_PER_SECOND: Final = 200.0
"""How many of what is open after the last fault must end in a second, on top of the plan's time."""

UNEVEN: Final = (0.4, 1.6)
"""The shortest and the longest pause between two faults, as parts of the mean one."""


class Fault(msgspec.Struct, frozen=True):
    """One fault: seconds after the start, its name, how long it lasts, and a number that aims."""

    at: float
    name: str
    seconds: float
    aim: int


class ChaosPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A run. The same plan gives the same operations and the same faults."""

    seed: int
    seconds: float = 60.0
    rate: float = 20.0
    """Operations begun in a second."""
    bulk: float = 0.0
    """Payments sent in batches in a second, and as many jobs."""
    pause_seconds: float = 2.5
    """The mean time from the end of a fault to the beginning of the next."""
    apis: int = 2
    workers: int = 3
    settlers: int = 2
    publishers: int = 2
    faults: tuple[str, ...] = FAULTS
    disk_mb: int = 0
    """How large the disk of the database and the logs is; 0 for no disk of its own."""
    idle_tenants: int = 0
    """Tenants that do nothing."""
    lease_seconds: float = 3.0
    drain_seconds: float = 90.0
    """Within how long after the last fault everything must have ended, but for a backlog."""

    def calm_seconds(self, left: int) -> float:
        """Return within how long everything must have ended of which so many were left open."""
        return self.drain_seconds + left / ENDED_PER_SECOND

    @property
    def roles(self) -> list[str]:
        """Return the role of each process."""
        return (
            ["api"] * self.apis
            + ["worker"] * self.workers
            + ["settlement"] * self.settlers
            + ["publisher"] * self.publishers
        )

    def command(self) -> str:
        """Return the command that runs it again."""
        words = [
            f"postdate chaos --seed {self.seed} --seconds {self.seconds:g} --rate {self.rate:g}",
            f"--bulk {self.bulk:g} --pause {self.pause_seconds:g}",
            f"--apis {self.apis} --workers {self.workers}",
            f"--settlers {self.settlers} --publishers {self.publishers}",
            *([f"--disk-mb {self.disk_mb}"] if self.disk_mb else []),
            *([f"--idle-tenants {self.idle_tenants}"] if self.idle_tenants else []),
            *(f"--fault {name}" for name in self._chosen()),
        ]
        return " ".join(words)

    def _chosen(self) -> Sequence[str]:
        return () if self.faults == FAULTS else self.faults or ("none",)

    def fault_list(self) -> Sequence[Fault]:
        """Draw the faults of the run, each after the one before."""
        drawn = random.Random(f"faults {self.seed}")
        found: list[Fault] = []
        at = CALM_SECONDS
        while self.faults and at < self.seconds:
            [name] = drawn.choices(self.faults, [_WEIGHTS[each] for each in self.faults])
            seconds = _lasts(name, drawn, self.lease_seconds)
            found.append(Fault(round(at, 2), name, round(seconds, 2), drawn.randrange(2**31)))
            at += seconds + self.pause_seconds * drawn.uniform(*UNEVEN)
        return found


def _lasts(name: str, drawn: random.Random, lease_seconds: float) -> float:
    """Return how long a fault lasts: a zombie longer than its leases, a cut no time at all."""
    if name == "zombie":
        return 2.0 * lease_seconds + drawn.random()
    if name in {"cut", "backend", "postmaster", "restart", "apis"}:
        return 0.0
    if name in LASTING and drawn.random() < 1 / 3:
        return drawn.uniform(*LONG_SECONDS)
    return drawn.uniform(0.3, 3.0)
