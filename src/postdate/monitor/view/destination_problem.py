"""The problems of destinations: held back, failing, or disabled."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from urllib.parse import quote

from postdate.destination.spec.trouble import Trouble
from postdate.destination.view.destination_call import FailingTarget
from postdate.job.store.job_list import WaitingCount
from postdate.monitor.store.overview import DisabledDestination, PausedDestination
from postdate.monitor.view.overview_problem import (
    MAX_NAMED,
    OverviewProblem,
    Severity,
    count,
    reason_sentence,
)


def failing_problems(
    troubles: Sequence[Trouble],
    failing: Sequence[FailingTarget],
    waiting: Mapping[str, WaitingCount],
) -> Iterator[OverviewProblem]:
    """Name what is held back, and then what fails without being held back yet."""
    held = {trouble.label for trouble in troubles}
    found = [
        _failing(
            trouble.label,
            trouble.answers[-1] if trouble.answers else "",
            trouble.since,
            f"Its jobs are held back until {trouble.held_until:%H:%M:%S} UTC, then one "
            "attempt probes it.",
            waiting.get(trouble.label),
        )
        for trouble in troubles
    ] + [
        _failing(
            one.label,
            one.answer,
            one.since,
            "None of its latest calls succeeded.",
            waiting.get(one.label),
        )
        for one in failing
        if one.label not in held
    ]
    yield from found[:MAX_NAMED]
    if len(found) > MAX_NAMED:
        more = count(len(found) - MAX_NAMED, "more destination")
        yield OverviewProblem(
            severity=Severity.FAILING,
            text=f"{more} failing.",
            link="/destinations",
            help="See them",
            runbook="destinations",
        )


def _failing(
    label: str, answer: str, since: datetime, state: str, waits: WaitingCount | None
) -> OverviewProblem:
    return OverviewProblem(
        severity=Severity.FAILING,
        text=f"Destination {label} is failing.",
        cause=f"It last answered: {answer}." if answer else "",
        since=since,
        holds_up=f"{waiting_sentence(waits)} {state}".strip(),
        kind="failing",
        waits=waits.waiting if waits else 0,
        link=_destination_page(label),
        help="See its answers",
        runbook="destinations",
    )


def disabled_problems(disabled: Sequence[DisabledDestination]) -> Iterator[OverviewProblem]:
    """Name the destinations that were disabled by a person or by an answer."""
    for one in disabled:
        yield OverviewProblem(
            severity=Severity.STOPPED,
            text=f"Destination {one.name} is disabled.",
            cause=reason_sentence(one.reason),
            since=one.disabled_at,
            holds_up="Jobs and subscriptions that go there fail.",
            kind="disabled",
            link=f"/destinations/{quote(one.name, safe='')}",
            help="See why and enable",
            runbook="destinations",
        )


def paused_problems(
    paused: Sequence[PausedDestination], waiting: Mapping[str, WaitingCount]
) -> Iterator[OverviewProblem]:
    """Name the destinations that a person paused, with what waits for each."""
    for one in paused:
        yield OverviewProblem(
            severity=Severity.NOTE,
            text=f"Destination {one.name} is paused.",
            cause=reason_sentence(one.reason),
            actor=one.paused_by,
            since=one.paused_at,
            holds_up=waiting_sentence(waiting.get(one.name)),
            kind="paused",
            waits=waiting[one.name].waiting if one.name in waiting else 0,
            link=f"/destinations/{quote(one.name, safe='')}/resume",
            help="Resume",
        )


def waiting_sentence(found: WaitingCount | None) -> str:
    """Say how many jobs wait for a target; "≥" where counting stopped."""
    if found is None or not found.waiting:
        return ""
    verb = "waits" if found.waiting == 1 else "wait"
    return f"{'≥ ' if found.capped else ''}{count(found.waiting, 'job')} {verb}."


def _destination_page(label: str) -> str:
    """Return the page of a named destination; a bare URL has none, so the list is shown."""
    return f"/destinations/{quote(label, safe='')}" if "://" not in label else "/destinations"
