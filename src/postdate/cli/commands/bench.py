"""Measure postdate against its promises."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import cyclopts

from postdate.cli.output import show
from postdate.model.error import StartError

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping, Sequence

    from postdate.bench.testbed import Measure

T = TypeVar("T")

bench_app = cyclopts.App(
    name="bench", help="Measure postdate against its promises, on a PostgreSQL of its own."
)


def _run(measuring: "Coroutine[Any, Any, T]") -> T:
    import uvloop

    from postdate.node import log

    log.configure("error", "console")
    return uvloop.run(measuring)


def _measure(measuring: "Coroutine[Any, Any, list[Measure]]") -> None:
    show(_run(measuring))


@bench_app.default
def everything(
    *,
    all_: Annotated[bool, cyclopts.Parameter(name="--all", negative=())] = False,
    quick: bool = False,
    scale: float = 1.0,
    rounds: int | None = None,
    pending: int | None = None,
    pgledger: Path | None = None,
    page: Path | None = None,
) -> None:
    """Measure postdate against its promises, on a PostgreSQL of its own.

    Parameters
    ----------
    all_
        Run every arm: jobs, payments, pending, schedules, events.
    quick
        Small numbers: shows that everything runs, not how fast.
    scale
        So much of the items of each arm: 0.2 takes about twelve minutes on two quiet cores.
    rounds
        How often each side of a comparison takes its turn (3).
    pending
        Timers of the far future beside which claims and settling are measured (10,000,000).
    pgledger
        A checkout of pgledger, to be measured too.
    page
        Write the figures as a Markdown page to this file, with charts beside it; anew after each
        suite, so that what was measured is kept whatever comes.

    """
    if not all_:
        bench_app.help_print()
        return
    from postdate.bench.everything import WholePlan, run
    from postdate.bench.page import BenchClock, write

    if page is not None and not page.parent.is_dir():
        raise StartError(f"there is no directory {page.parent} for the page")
    for name, value in (("rounds", rounds), ("pending", pending)):
        if value is not None and value < 1:
            raise StartError(f"--{name} must be at least 1")
    if not 0 < scale <= 1:
        raise StartError("--scale lies between 0 and 1")
    plan = WholePlan(quick=quick, scale=scale, rounds=rounds, pending=pending, pgledger=pgledger)
    clock = BenchClock(plan.command)

    def keep(figures: "Mapping[str, Sequence[Measure]]") -> None:
        if page is not None:
            write(page, figures, clock.facts())

    figures = _run(run(plan, keep))
    show([each for measures in figures.values() for each in measures])


@bench_app.command
def jobs(
    *,
    count: int = 40_000,
    rounds: int = 3,
    only: list[str] | None = None,
) -> None:
    """Measure jobs side by side with pgqueuer, procrastinate and other peers, and with bare SQL.

    Parameters
    ----------
    count
        Jobs of each arm that runs them as fast as it can.
    rounds
        How often each side of a comparison takes its turn; the figures are medians.
    only
        Run only these arms; may be given several times.

    """
    from postdate.bench.job import JobPlan, run

    _measure(run(JobPlan(count=count, rounds=rounds), only or []))


@bench_app.command
def payments(
    *, quick: bool = False, pgledger: Path | None = None, only: list[str] | None = None
) -> None:
    """Measure payments side by side with naive transactions, pgledger, and bare SQL.

    Parameters
    ----------
    quick
        Small numbers: shows that everything runs, not how fast.
    pgledger
        A checkout of pgledger, to be measured too.
    only
        Run only these arms; may be given several times.

    """
    from dataclasses import replace

    from postdate.bench.payment import run
    from postdate.bench.payment_plan import QUICK, PaymentPlan

    plan = replace(QUICK if quick else PaymentPlan(), pgledger=pgledger)
    _measure(run(plan, only or []))


@bench_app.command
def pending(*, timers: int = 10_000_000, quick: bool = False) -> None:
    """Measure claims, settling, reads and vacuum beside few and beside many pending timers.

    Parameters
    ----------
    timers
        How many are many. A hundred million take about 25 GB of disk while it runs.
    quick
        Small numbers: shows that everything runs, not how fast.

    """
    from dataclasses import replace

    from postdate.bench.pending import FEW, QUICK, PendingPlan, run

    if timers < 2 * FEW:
        raise StartError(f"--timers must be at least {2 * FEW}, to compare with {FEW}")
    _measure(run(QUICK if quick else replace(PendingPlan(), timers=timers)))


@bench_app.command
def schedules(*, quick: bool = False, only: list[str] | None = None) -> None:
    """Measure schedules: many due at one instant, and many that are not due.

    Parameters
    ----------
    quick
        Small numbers: shows that everything runs, not how fast.
    only
        Run only these arms; may be given several times.

    """
    from postdate.bench.schedule import QUICK, SchedulePlan, run

    _measure(run(QUICK if quick else SchedulePlan(), only or []))


@bench_app.command
def events(*, quick: bool = False, only: list[str] | None = None) -> None:
    """Measure events and queues: sealing, delivery to NATS, lag, idle subscriptions.

    Parameters
    ----------
    quick
        Small numbers: shows that everything runs, not how fast.
    only
        Run only these arms; may be given several times.

    """
    from postdate.bench.event import QUICK, EventPlan, run

    _measure(run(QUICK if quick else EventPlan(), only or []))
