"""Measure postdate against its promises."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import cyclopts

from postdate.cli.output import show
from postdate.words.error import StartError

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping, Sequence

    from postdate_lab.bench.testbed import Measure

T = TypeVar("T")

Quick = Annotated[
    bool,
    cyclopts.Parameter(help="Small numbers: shows that everything runs, not how fast."),
]
Only = Annotated[
    tuple[str, ...],
    cyclopts.Parameter(help="Run only these arms; may be given several times."),
]

bench_app = cyclopts.App(
    name="bench", help="Measure postdate against its promises, on a separate PostgreSQL."
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
    """Measure postdate against its promises, on a separate PostgreSQL.

    Parameters
    ----------
    all_
        Run every arm: jobs, payments, pending, schedules, events.
    quick
        Small numbers: shows that everything runs, not how fast.
    scale
        Fraction of each arm's items: 0.2 takes about twelve minutes on two idle cores.
    rounds
        How often each side of a comparison runs (3).
    pending
        Number of timers in the far future while claims and settlement are measured (10,000,000).
    pgledger
        A checkout of pgledger, to measure it too.
    page
        Write the figures as a Markdown page to this file, with charts beside it; again after each
        suite, so that what was measured is kept whatever comes.

    """
    if not all_:
        bench_app.help_print()
        return
    from postdate_lab.bench.everything import WholePlan, run
    from postdate_lab.bench.page import BenchClock, write

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
    count: Annotated[
        int, cyclopts.Parameter(help="Jobs of each arm that runs them as fast as it can.")
    ] = 40_000,
    rounds: Annotated[
        int,
        cyclopts.Parameter(help="How often each side of a comparison takes its turn; medians."),
    ] = 3,
    only: Only = (),
) -> None:
    """Measure jobs side by side with pgqueuer, procrastinate and other peers, and with bare SQL."""
    from postdate_lab.bench.job import SUITE, JobPlan

    _measure(SUITE.run(JobPlan(count=count, rounds=rounds), only))


@bench_app.command
def payments(
    *,
    quick: Quick = False,
    pgledger: Annotated[
        Path | None, cyclopts.Parameter(help="A checkout of pgledger, to be measured too.")
    ] = None,
    only: Only = (),
) -> None:
    """Measure payments side by side with naive transactions, pgledger, and bare SQL."""
    from dataclasses import replace

    from postdate_lab.bench.payment import SUITE

    plan = replace(SUITE.quick if quick else SUITE.plan, pgledger=pgledger)
    _measure(SUITE.run(plan, only))


@bench_app.command
def pending(
    *,
    timers: Annotated[
        int,
        cyclopts.Parameter(
            help="How many are many. A hundred million take about 25 GB of disk while it runs."
        ),
    ] = 10_000_000,
    quick: Quick = False,
) -> None:
    """Measure claims, settling, reads and vacuum beside few and beside many pending timers."""
    from dataclasses import replace

    from postdate_lab.bench.pending import FEW, SUITE

    if timers < 2 * FEW:
        raise StartError(f"--timers must be at least {2 * FEW}, to compare with {FEW}")
    _measure(SUITE.run(SUITE.quick if quick else replace(SUITE.plan, timers=timers)))


@bench_app.command
def schedules(*, quick: Quick = False, only: Only = ()) -> None:
    """Measure schedules: many due at one instant, and many that are not due."""
    from postdate_lab.bench.schedule import SUITE

    _measure(SUITE.run(SUITE.quick if quick else SUITE.plan, only))


@bench_app.command
def events(*, quick: Quick = False, only: Only = ()) -> None:
    """Measure events and queues: sealing, delivery to NATS, lag, idle subscriptions."""
    from postdate_lab.bench.event import SUITE

    _measure(SUITE.run(SUITE.quick if quick else SUITE.plan, only))
