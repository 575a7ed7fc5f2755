"""Problems of the overview: one sentence each, with a link."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

import msgspec

from postdate.console.render import duration
from postdate.model.destination.trouble import Trouble
from postdate.views.monitor.overview import LaneBacklog, Overview

LATE_SECONDS: Final = 5.0
"""Work that has been due for longer than this is a problem, not a queue."""


SHOWN: Final = 10
"""Most destinations in trouble that are named one by one."""


class OverviewProblem(msgspec.Struct, frozen=True):
    """What is wrong, and the page that shows it."""

    text: str
    link: str


_CHECKED: Final = {
    "round": ("round of proofs", "/accounts"),
    "prove": ("postdate prove", "/accounts"),
    "reconcile": ("postdate reconcile", "/payments"),
    "verify": ("postdate events verify", "/events"),
}
"""The checks of the whole books: how each is run, and where to look when it found something."""


class BooksCheck(msgspec.Struct, frozen=True):
    """The last check of one kind, if there ever was one."""

    command: str
    link: str
    ago: str | None
    findings: int


def checks(overview: Overview) -> list[BooksCheck]:
    """Return when the books were last checked as a whole, with the findings."""
    ran = {run.name: run for run in overview.slow.checks}
    return [
        BooksCheck(
            command,
            link,
            _duration(ran[name].seconds) if name in ran else None,
            ran[name].findings if name in ran else 0,
        )
        for name, (command, link) in _CHECKED.items()
    ]


def problems(
    overview: Overview, found: Sequence[BooksCheck], overdue: Sequence[str], now: datetime
) -> list[OverviewProblem]:
    """Return every problem, the worst first."""
    return [
        *_broken(found),
        *(
            OverviewProblem(f"Overdue: {what}; every node is checking again.", "/")
            for what in overdue
        ),
        *_money(overview, now),
        *_set_aside(overview),
        *(problem for lane in overview.lanes for problem in _lane(lane, now)),
        *_failed(overview),
    ]


def _broken(found: Sequence[BooksCheck]) -> Iterator[OverviewProblem]:
    for check in found:
        if check.findings:
            yield OverviewProblem(
                f"{check.command} reported {count(check.findings, 'finding')} "
                f"{check.ago} ago: run it again for details.",
                check.link,
            )


def _money(overview: Overview, now: datetime) -> Iterator[OverviewProblem]:
    if overview.payments_parked:
        yield OverviewProblem(
            f"{count(overview.payments_parked, 'payment')} could not be settled and "
            "need a decision; their amounts are held.",
            "/payments?status=EXECUTING",
        )
    late = _seconds(overview.payments_oldest, now)
    if late > LATE_SECONDS:
        yield OverviewProblem(
            f"{count(overview.payments_overdue, 'payment')} due and not settled, the oldest "
            f"for {_duration(late)}: is a settlement node running?",
            "/payments?status=PENDING",
        )


def _set_aside(overview: Overview) -> Iterator[OverviewProblem]:
    if overview.schedules_set_aside:
        yield OverviewProblem(
            f"{count(overview.schedules_set_aside, 'schedule')} were set aside because of an "
            "error: each shows it.",
            "/schedules?set_aside=true",
        )


def _lane(lane: LaneBacklog, now: datetime) -> Iterator[OverviewProblem]:
    late = _seconds(lane.oldest, now)
    if lane.paused_at is not None:
        why = f": {lane.paused_note}" if lane.paused_note else ""
        waiting = f", {count(lane.overdue, 'job')} due" if lane.overdue else ""
        yield OverviewProblem(f"Lane {lane.name} is paused{why}{waiting}.", "/lanes")
    elif late > LATE_SECONDS:
        what = "a worker claims its jobs" if lane.kind == "pull" else "a worker node runs"
        yield OverviewProblem(
            f"Lane {lane.name} is late: {count(lane.overdue, 'job')} due, the oldest for "
            f"{_duration(late)}. Check that {what} and that its limit is high enough.",
            f"/jobs?status=READY&lane={lane.name}",
        )
    if lane.unknown:
        yield OverviewProblem(
            f"{count(lane.unknown, 'job')} of lane {lane.name} with unknown outcome: it is not "
            "known whether they ran.",
            f"/jobs?status=UNKNOWN&lane={lane.name}",
        )


def failing(troubles: Sequence[Trouble]) -> Iterator[OverviewProblem]:
    """Return a problem for each failing destination."""
    for trouble in troubles[:SHOWN]:
        heard = f": {trouble.answers[-1]}" if trouble.answers else ""
        yield OverviewProblem(
            f"Destination {trouble.label} is failing{heard}. Its jobs are held back until "
            f"{trouble.held_until:%H:%M:%S} UTC, then one attempt probes it.",
            "/destinations",
        )
    if len(troubles) > SHOWN:
        more = count(len(troubles) - SHOWN, "more destination")
        yield OverviewProblem(f"{more} are failing.", "/destinations")


def _failed(overview: Overview) -> Iterator[OverviewProblem]:
    failed = overview.slow
    if failed.jobs_failed:
        text = f"{count(failed.jobs_failed, 'job')} accepted in the last 24 h failed permanently."
        yield OverviewProblem(text, "/jobs?status=FAILED")
    if failed.payments_failed:
        text = f"{count(failed.payments_failed, 'payment')} accepted in the last 24 h failed."
        yield OverviewProblem(text, "/payments?status=FAILED")


def _seconds(since: datetime | None, now: datetime) -> float:
    return 0.0 if since is None else (now - since).total_seconds()


def _duration(seconds: float) -> str:
    return duration(round(seconds * 1000))


def count(many: int, noun: str) -> str:
    """Write a number with its noun."""
    return f"{many:,} {noun}" if many == 1 else f"{many:,} {noun}s"
