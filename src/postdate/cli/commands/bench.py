"""Measure postdate against its promises."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import cyclopts

from postdate.cli.output import Json, show

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from postdate.bench.testbed import Measure

bench_app = cyclopts.App(
    name="bench", help="Measure postdate against its promises, on a PostgreSQL of its own."
)


def _measure(measuring: "Coroutine[Any, Any, list[Measure]]", *, as_json: bool) -> None:
    import uvloop

    from postdate.node import log

    log.configure("error", "console")
    show(uvloop.run(measuring), as_json=as_json)


@bench_app.command
def jobs(
    *,
    count: int = 40_000,
    pending: int = 10_000_000,
    only: list[str] | None = None,
    json: Json = False,
) -> None:
    """Measure jobs side by side with pgqueuer and procrastinate, and with bare SQL.

    Parameters
    ----------
    count
        Jobs of each arm that runs them as fast as it can.
    pending
        Jobs of the far future beside which claims are measured.
    only
        Run only these arms; may be given several times.
    json
        Print JSON.

    """
    from postdate.bench.job import run

    _measure(run(count, pending, only or []), as_json=json)


@bench_app.command
def payments(
    *,
    quick: bool = False,
    pgledger: Path | None = None,
    only: list[str] | None = None,
    json: Json = False,
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
    json
        Print JSON.

    """
    from dataclasses import replace

    from postdate.bench.payment import QUICK, Plan, run

    plan = replace(QUICK if quick else Plan(), pgledger=pgledger)
    _measure(run(plan, only or []), as_json=json)


@bench_app.command
def schedules(*, quick: bool = False, only: list[str] | None = None, json: Json = False) -> None:
    """Measure schedules: many due at one instant, and many that are not due.

    Parameters
    ----------
    quick
        Small numbers: shows that everything runs, not how fast.
    only
        Run only these arms; may be given several times.
    json
        Print JSON.

    """
    from postdate.bench.schedule import QUICK, Plan, run

    _measure(run(QUICK if quick else Plan(), only or []), as_json=json)


@bench_app.command
def events(*, quick: bool = False, only: list[str] | None = None, json: Json = False) -> None:
    """Measure events and queues: sealing, delivery to NATS, lag, idle subscriptions.

    Parameters
    ----------
    quick
        Small numbers: shows that everything runs, not how fast.
    only
        Run only these arms; may be given several times.
    json
        Print JSON.

    """
    from postdate.bench.event import QUICK, Plan, run

    _measure(run(QUICK if quick else Plan(), only or []), as_json=json)
