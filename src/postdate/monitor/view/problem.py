"""The problems of a tenant, ranked: money first, then stopped work, then the rest.

Each problem says what it is, why, since when, what it affects, and which page helps. A
deliberate act (a paused lane, a halt) is a note, not an alarm.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from urllib.parse import quote

import msgspec

from postdate.destination.spec.trouble import Trouble
from postdate.foresight.view.money import MoneyView
from postdate.halt.spec import HaltView
from postdate.monitor.store.overview import BrokenOffSet, LaggingSubscription
from postdate.monitor.view.counted import MarkedCount
from postdate.monitor.view.destination_problem import (
    disabled_problems,
    failing_problems,
    paused_problems,
)
from postdate.monitor.view.overview import LaneBacklog, Overview
from postdate.monitor.view.overview_problem import (
    MAX_NAMED,
    OverviewProblem,
    Severity,
    count,
    reason_sentence,
)
from postdate.monitor.view.secret_key import MissingKey

LATE_SECONDS: Final = 5.0
"""Work that has been due for longer than this is a problem, not a queue."""

UNSERVED_SECONDS: Final = 60.0
"""A pull lane whose oldest job has waited for longer, while nothing of it runs, has no worker."""


class ProblemFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Everything the list is made from."""

    overview: Overview
    overdue: Sequence[str]
    troubles: Sequence[Trouble]
    halts: Sequence[HaltView]
    now: datetime
    will_fail: MoneyView | None = None
    """The payments that will fail within `foresight.warn_hours`."""


def find_problems(facts: ProblemFacts) -> list[OverviewProblem]:
    """Return every problem, the worst first and the oldest of equals first."""
    found = [
        *_payments(facts),
        *_will_fail(facts),
        *overdue_problems(facts.overdue, "/lanes"),
        *_secret_keys(facts.overview.slow.missing_keys),
        *_schedules(facts),
        *_change_sets(facts.overview.broken_off),
        *(each for lane in facts.overview.lanes for each in _lane(lane, facts)),
        *failing_problems(facts.troubles, facts.overview.slow.failing, facts.overview.waiting),
        *disabled_problems(facts.overview.disabled),
        *paused_problems(facts.overview.paused, facts.overview.waiting),
        *_subscriptions(facts.overview.subscriptions),
        *_failed(facts),
        *_halts(facts),
    ]
    return sorted(found, key=lambda each: (each.severity, each.since or facts.now))


def _payments(facts: ProblemFacts) -> Iterator[OverviewProblem]:
    overview = facts.overview
    if overview.payments_parked:
        yield OverviewProblem(
            severity=Severity.MONEY,
            text=f"{overview.payments_parked.of('payment')} could not be settled and "
            "need a decision.",
            cause="Their settlement failed for a reason that does not go away by itself.",
            holds_up="Their amounts stay held.",
            link="/payments?status=EXECUTING",
            help="Decide",
            runbook="broken-payments",
        )
    if _seconds(overview.payments_oldest, facts.now) > LATE_SECONDS and not _halted(facts):
        served = overview.slow.nodes.get("settlement", 0)
        yield OverviewProblem(
            severity=Severity.MONEY,
            text=f"{overview.payments_overdue.of('payment')} due and not settled.",
            cause="The settlement nodes are behind or an account is locked."
            if served
            else "No settlement node is alive.",
            since=overview.payments_oldest,
            holds_up="Their amounts stay held, and payees wait.",
            link="/payments?status=PENDING",
            help="See them",
            runbook="lateness" if served else "settlement-stopped",
        )
    if overview.approvals_overdue:
        yield OverviewProblem(
            severity=Severity.MONEY,
            text=f"{count(overview.approvals_overdue, 'payment')} past due and not yet approved.",
            cause="They were neither approved nor refused.",
            since=overview.approvals_oldest,
            holds_up="They settle when they are approved, and fail when the approval expires.",
            link="/approvals",
            help="Approve or refuse",
        )


def _will_fail(facts: ProblemFacts) -> Iterator[OverviewProblem]:
    found = facts.will_fail
    if found is None or not found.failing:
        return
    first = found.failing[0]
    why = first.code.replace("_", " ")
    yield OverviewProblem(
        severity=Severity.MONEY,
        text=f"{count(found.failing_count, 'payment')} will fail within the warning time, the "
        f"first from {first.from_account_id} to {first.to_account_id}: {why}.",
        cause="A simulation settled the open and scheduled payments on a copy of the accounts.",
        holds_up="Payees will not get their money.",
        link="/foresight/money?window=week",
        help="See which",
        runbook="will-fail",
    )


def overdue_problems(sentences: Sequence[str], link: str) -> Iterator[OverviewProblem]:
    """Return what no stage has touched for longer than it may."""
    for what in sentences:
        yield OverviewProblem(
            severity=Severity.STOPPED,
            text=f"Overdue: {what}.",
            cause="No stage has touched it; every node is checking again.",
            link=link,
            help="See what is alive",
            runbook="overdue",
        )


def _secret_keys(missing: Sequence[MissingKey]) -> Iterator[OverviewProblem]:
    for one in missing[:MAX_NAMED]:
        whole = one.lacking + one.having
        yield OverviewProblem(
            severity=Severity.FAILING if one.having else Severity.STOPPED,
            text=f"{one.lacking} of {whole} nodes with the role {one.role} lack the secret key "
            f"{one.name}."
            if one.having
            else f"No node with the role {one.role} has the secret key {one.name}.",
            cause=f"It opens {one.what}; POSTDATE_SECRET_KEY differs between the nodes.",
            since=one.since,
            holds_up="What such a node takes is left to the others, some seconds late."
            if one.having
            else "Jobs that need it are put off, and fail when they expire.",
            link="/jobs?status=READY",
            help="See what waits",
            runbook="secret-key",
        )


def _schedules(facts: ProblemFacts) -> Iterator[OverviewProblem]:
    many = facts.overview.schedules_set_aside
    if many:
        yield OverviewProblem(
            severity=Severity.STOPPED,
            text=f"{many.of('schedule')} set aside because of an error.",
            cause="Each shows the error that ended its last run.",
            holds_up="They create nothing until they are resumed.",
            link="/schedules?set_aside=true",
            help="See the errors",
            runbook="schedule-set-aside",
        )


def _change_sets(broken_off: Sequence[BrokenOffSet]) -> Iterator[OverviewProblem]:
    for one in broken_off:
        verb = "applied" if one.status == "APPLYING" else "undone"
        yield OverviewProblem(
            severity=Severity.STOPPED,
            text=f"Change set …{str(one.change_set_id)[-12:]} was interrupted while it was {verb}.",
            cause=f"{one.made} of {one.changes} changes are applied; no process is working on it.",
            since=one.changed_at,
            holds_up="It never continues by itself.",
            link=f"/change-sets/{one.change_set_id}",
            help="Continue or undo",
        )


def _lane(lane: LaneBacklog, facts: ProblemFacts) -> Iterator[OverviewProblem]:
    ready = f"/jobs?status=READY&lane={quote(lane.name)}"
    late = _seconds(lane.oldest, facts.now)
    if lane.paused_at is not None:
        yield OverviewProblem(
            severity=Severity.NOTE,
            text=f"Lane {lane.name} is paused.",
            cause=reason_sentence(lane.paused_note),
            actor=lane.paused_by,
            since=lane.paused_at,
            holds_up=f"{_waiting(lane.overdue)}." if lane.overdue else "",
            kind="paused",
            waits=lane.overdue,
            link=f"/lanes/{quote(lane.name, safe='')}/resume",
            help="Resume",
        )
    elif late > LATE_SECONDS and not _halted(facts):
        severity, cause = _late_cause(lane, late, facts.overview.slow.nodes)
        due = MarkedCount(lane.overdue, lane.capped)
        yield OverviewProblem(
            severity=severity,
            text=f"Lane {lane.name} is late: {due.of('job')} due.",
            cause=cause,
            since=lane.oldest,
            holds_up=f"{_waiting(lane.overdue)}, and so do later jobs of the lane.",
            kind="late",
            waits=lane.overdue,
            link=ready,
            help="See them",
            runbook="backlog",
        )
    if lane.unknown:
        unknown = MarkedCount(lane.unknown, lane.capped)
        yield OverviewProblem(
            severity=Severity.STOPPED,
            text=f"{unknown.of('job')} of lane {lane.name} with unknown outcome.",
            kind="unknown",
            waits=unknown.many,
            cause="It is not known whether they ran, and their policy asks for a person.",
            link=f"/jobs?status=UNKNOWN&lane={quote(lane.name)}",
            help="Resolve",
        )


def _late_cause(lane: LaneBacklog, late: float, nodes: dict[str, int]) -> tuple[Severity, str]:
    if lane.kind == "push" and not nodes.get("worker"):
        return Severity.STOPPED, "No worker node is alive."
    if lane.kind == "pull" and not lane.running and late > UNSERVED_SECONDS:
        return Severity.STOPPED, "No worker claims its jobs."
    if lane.max_running is not None and lane.running >= lane.max_running:
        return Severity.FAILING, f"It is at its limit: {lane.running} of {lane.max_running} run."
    if lane.rate_per_second is not None:
        return Severity.FAILING, f"It may start {lane.rate_per_second:g} a second."
    return Severity.FAILING, f"{lane.running:,} of its jobs run, and more are due."


def _subscriptions(lagging: Sequence[LaggingSubscription]) -> Iterator[OverviewProblem]:
    for one in lagging:
        paused = one.paused_at is not None
        behind = f"{count(one.lag_events, 'event')} behind"
        failing = f"Delivery failed {count(one.failures, 'time')}: {one.error}."
        yield OverviewProblem(
            severity=Severity.NOTE if paused else Severity.FAILING,
            text=f"Subscription to {_target(one.destination)} is {'paused' if paused else behind}.",
            cause=reason_sentence(one.paused_note) if paused else failing if one.failures else "",
            since=one.paused_at or one.failing_since,
            holds_up=f"It is {behind}." if paused and one.lag_events else "",
            link=f"/subscriptions/{one.subscription_id}/resume" if paused else "/subscriptions",
            help="Resume" if paused else "See it",
            runbook="" if paused else "event-lag",
            kind="subscription",
        )


def _failed(facts: ProblemFacts) -> Iterator[OverviewProblem]:
    slow = facts.overview.slow
    if slow.payments_failed:
        yield OverviewProblem(
            severity=Severity.FAILING,
            text=f"{slow.payments_failed.of('payment')} accepted in the last 24 h failed.",
            cause="Each shows its code; most often funds are missing.",
            link="/payments?status=FAILED",
            help="See them",
            runbook="failure-rate",
        )
    if slow.jobs_failed:
        yield OverviewProblem(
            severity=Severity.FAILING,
            text=f"{slow.jobs_failed.of('job')} accepted in the last 24 h failed permanently.",
            cause="Every attempt failed, or the failure was final.",
            link="/dead-letters",
            help="Redrive",
            runbook="dead-letters",
        )


def _halts(facts: ProblemFacts) -> Iterator[OverviewProblem]:
    for halt in facts.halts:
        if not _holds(halt, facts.now):
            continue
        kind = "The kill switch is on" if halt.kind == "kill" else "A freeze window is open"
        until = "" if halt.until_at is None else f" until {halt.until_at:%Y-%m-%d %H:%M:%S} UTC"
        yield OverviewProblem(
            severity=Severity.NOTE,
            text=f"{kind}{until}.",
            cause=reason_sentence(halt.note),
            actor=halt.set_by,
            since=max(halt.from_at, halt.set_at),
            holds_up="None of the tenant's work starts or settles.",
            link="/halts/release" if halt.kind == "kill" else "/halts/thaw",
            help="Release it" if halt.kind == "kill" else "End it",
        )


def _halted(facts: ProblemFacts) -> bool:
    return any(_holds(halt, facts.now) for halt in facts.halts)


def _holds(halt: HaltView, now: datetime) -> bool:
    return halt.from_at <= now and (halt.until_at is None or now < halt.until_at)


def _target(destination: Mapping[str, Any]) -> str:
    return str(destination.get("name") or destination.get("url"))


def _waiting(jobs: int) -> str:
    return f"{count(jobs, 'job')} {'waits' if jobs == 1 else 'wait'}"


def _seconds(since: datetime | None, now: datetime) -> float:
    return 0.0 if since is None else (now - since).total_seconds()
