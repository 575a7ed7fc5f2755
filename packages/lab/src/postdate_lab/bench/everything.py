"""`postdate bench --all`: every arm in one run, one suite after the other."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Final

from postdate_lab.bench import event, job, payment, pending, schedule
from postdate_lab.bench.arm import Suite, or_missed, show_progress
from postdate_lab.bench.testbed import Measure
from postdate_lab.bench.transfer import pgledger_scripts

SUITES: Final[Mapping[str, Suite[Any]]] = {
    "jobs": job.SUITE,
    "payments": payment.SUITE,
    "pending": pending.SUITE,
    "schedules": schedule.SUITE,
    "events": event.SUITE,
}

UNSCALED: Final = frozenset(
    {"rounds", "accounts", "batches", "rate", "slow_calls", "limit_seconds"}
)
"""What is the same however many items are measured."""


@dataclass(slots=True, frozen=True, kw_only=True)
class WholePlan:
    """How much of everything to measure; what is None is left to the suites."""

    quick: bool = False
    scale: float = 1.0
    """So much of the items of each arm, with as many rounds."""

    rounds: int | None = None
    pending: int | None = None
    pgledger: Path | None = None

    @property
    def command(self) -> str:
        """Return the command that measures as much."""
        words = ["postdate bench --all"]
        words += ["--quick"] if self.quick else []
        words += [f"--scale {self.scale:g}"] if self.scale != 1 else []
        words += [f"--rounds {self.rounds}"] if self.rounds else []
        words += [f"--pending {self.pending}"] if self.pending else []
        words += ["--pgledger …"] if self.pgledger else []
        return " ".join(words)


KeepFigures = Callable[[Mapping[str, Sequence[Measure]]], object]
"""Called after each suite with all figures so far: a run takes long, and may end early."""


async def run(plan: WholePlan, keep: KeepFigures) -> dict[str, list[Measure]]:
    """Measure jobs, payments, pending timers, schedules and events; return the figures by suite."""
    if plan.pgledger is not None:
        pgledger_scripts(plan.pgledger)  # refused now, not after ten minutes
    found: dict[str, list[Measure]] = {}
    for name, sizes in plan_suites(plan).items():
        show_progress(f"== {name}")
        found[name] = await or_missed(name, SUITES[name].run(sizes))
        keep(found)
    return found


def _scaled(sizes: Any, scale: float) -> Any:
    """Return a plan with so much of its items, of each one at least."""
    found = {each.name: getattr(sizes, each.name) for each in fields(sizes)}
    scaled: dict[str, Any] = {
        name: max(1, round(size * scale))
        for name, size in found.items()
        if isinstance(size, int) and name not in UNSCALED
    }
    return replace(sizes, **scaled)


def plan_suites(plan: WholePlan) -> dict[str, Any]:
    """Return the plan of each suite: scaled, and with what was asked for, where it has that."""
    asked = {"rounds": plan.rounds, "timers": plan.pending, "pgledger": plan.pgledger}
    found = {}
    for name, suite in SUITES.items():
        sizes = _scaled(suite.quick if plan.quick else suite.plan, plan.scale)
        known = {each.name for each in fields(sizes)}
        given = {n: value for n, value in asked.items() if value is not None and n in known}
        found[name] = replace(sizes, **given)
    return found
