"""`postdate bench --all`: every arm in one run, one suite after the other."""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from postdate.bench import event, job, payment, payment_plan, pending, schedule
from postdate.bench.arm import or_missed, show_progress
from postdate.bench.event import EventPlan
from postdate.bench.job import JobPlan
from postdate.bench.payment_plan import PaymentPlan
from postdate.bench.pending import PendingPlan
from postdate.bench.schedule import SchedulePlan
from postdate.bench.testbed import Measure
from postdate.bench.transfer import pgledger_scripts

Sizes = TypeVar("Sizes", JobPlan, PaymentPlan, PendingPlan, SchedulePlan, EventPlan)

UNSCALED: Final = frozenset({"rounds", "accounts", "batches", "rate", "slow_calls"})
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


Keep = Callable[[Mapping[str, Sequence[Measure]]], object]
"""Called after each suite with all figures so far: a run takes long, and may end early."""


async def run(plan: WholePlan, keep: Keep) -> dict[str, list[Measure]]:
    """Measure jobs, payments, pending timers, schedules and events; return the figures by suite."""
    if plan.pgledger is not None:
        pgledger_scripts(plan.pgledger)  # refused now, not after ten minutes
    found: dict[str, list[Measure]] = {}
    for name, suite in plan_suites(plan).items():
        show_progress(f"== {name}")
        found[name] = await or_missed(name, suite())
        keep(found)
    return found


def _scaled(sizes: Sizes, scale: float) -> Sizes:
    """Return a plan with so much of its items, of each one at least."""
    found = {each.name: getattr(sizes, each.name) for each in fields(sizes)}
    scaled: dict[str, Any] = {
        name: max(1, round(size * scale))
        for name, size in found.items()
        if isinstance(size, int) and name not in UNSCALED
    }
    return replace(sizes, **scaled)


def plan_suites(plan: WholePlan) -> dict[str, partial[Coroutine[Any, Any, list[Measure]]]]:
    """Return each suite with its plan, ready to be run."""
    quick = plan.quick
    jobs = job.QUICK if quick else job.JobPlan()
    payments = payment_plan.QUICK if quick else payment_plan.PaymentPlan()
    timers = pending.QUICK if quick else pending.PendingPlan()
    schedules = schedule.QUICK if quick else schedule.SchedulePlan()
    events = event.QUICK if quick else event.EventPlan()
    if plan.scale != 1:
        jobs, payments, timers, schedules, events = (
            _scaled(jobs, plan.scale),
            _scaled(payments, plan.scale),
            _scaled(timers, plan.scale),
            _scaled(schedules, plan.scale),
            _scaled(events, plan.scale),
        )
    if plan.rounds is not None:
        jobs, payments, timers, events = (
            replace(jobs, rounds=plan.rounds),
            replace(payments, rounds=plan.rounds),
            replace(timers, rounds=plan.rounds),
            replace(events, rounds=plan.rounds),
        )
    if plan.pending is not None:
        timers = replace(timers, timers=plan.pending)
    payments = replace(payments, pgledger=plan.pgledger)
    return {
        "jobs": partial(job.run, jobs, []),
        "payments": partial(payment.run, payments, []),
        "pending": partial(pending.run, timers),
        "schedules": partial(schedule.run, schedules, []),
        "events": partial(event.run, events, []),
    }
