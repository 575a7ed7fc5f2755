"""`postdate bench --all`: every arm in one run, one suite after the other."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from postdate.bench import event, job, payment, payment_plan, pending, schedule
from postdate.bench.arm import show_progress
from postdate.bench.testbed import Measure


@dataclass(slots=True, frozen=True, kw_only=True)
class WholePlan:
    """How much of everything to measure; what is None is left to the suites."""

    quick: bool = False
    rounds: int | None = None
    pending: int | None = None
    pgledger: Path | None = None

    @property
    def command(self) -> str:
        """Return the command that measures as much."""
        words = ["postdate bench --all"]
        words += ["--quick"] if self.quick else []
        words += [f"--rounds {self.rounds}"] if self.rounds else []
        words += [f"--pending {self.pending}"] if self.pending else []
        words += ["--pgledger …"] if self.pgledger else []
        return " ".join(words)


async def run(plan: WholePlan) -> dict[str, list[Measure]]:
    """Measure jobs, payments, pending timers, schedules and events; return the figures by suite."""
    found = {}
    for name, suite in _suites(plan).items():
        show_progress(f"== {name}")
        found[name] = await suite()
    return found


def _suites(plan: WholePlan) -> dict[str, Callable[[], Awaitable[list[Measure]]]]:
    quick = plan.quick
    jobs = job.QUICK if quick else job.JobPlan()
    payments = payment_plan.QUICK if quick else payment_plan.PaymentPlan()
    timers = pending.QUICK if quick else pending.PendingPlan()
    schedules = schedule.QUICK if quick else schedule.SchedulePlan()
    events = event.QUICK if quick else event.EventPlan()
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
