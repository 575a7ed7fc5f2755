"""Bulk actions on jobs, selected or found by a filter, after a dry run."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlencode
from uuid import UUID

import msgspec

from postdate.console.action import REASON, Action, DryRun, Field, moment_of, plan_of, reason_of
from postdate.console.bulk import BulkRun, BulkStep, RunStep
from postdate.console.equivalent_command import (
    FILTER_OPTIONS,
    EquivalentCommand,
    Typed,
    filter_members,
)
from postdate.console.page_request import PageRequest, instant
from postdate.core.identity import Scope
from postdate.core.ids import bucket_of
from postdate.core.status import JobStatus
from postdate.job.change.bulk import (
    CANCELLABLE,
    MAX_BULK,
    WAITING,
    BulkFilter,
    Changed,
    Found,
    Instant,
)
from postdate.words.error import Code, refuse

SHOWN: Final = 5
"""How many of them a dry run shows: the oldest."""

FILTER: Final = ("status", "lane", "schedule", "due_after", "due_before")
FIELDS: Final = (
    Field(
        name="status",
        label="Status",
        kind="choice",
        choices=("PENDING", "READY", "RUNNING"),
        hint="PENDING and READY if empty",
        required=False,
    ),
    Field(name="lane", label="Lane", hint="any if empty", required=False),
    Field(name="schedule", label="Schedule", hint="its id; any if empty", required=False),
    Field(
        name="due_after", label="Due after", kind="datetime-local", hint="in UTC", required=False
    ),
    Field(
        name="due_before", label="Due before", kind="datetime-local", hint="in UTC", required=False
    ),
)
ORDER: Final = (JobStatus.RUNNING, JobStatus.READY, JobStatus.PENDING)
HELD: Final = "locked by somebody else: run it again"
HEAD: Final = ("Job", "Status", "Due", "Lane", "Description")


def _back(request: PageRequest) -> str:
    given = request.form or request.http.query_params
    kept = {name: given[name] for name in FILTER if given.get(name)}
    return "/jobs" + (f"?{urlencode(kept)}" if kept else "")


def _filter(given: Mapping[str, str]) -> BulkFilter:
    try:
        return BulkFilter(
            status=JobStatus(given["status"]) if given.get("status") else None,
            lane=given.get("lane") or None,
            schedule_id=UUID(given["schedule"]) if given.get("schedule") else None,
            due_after=instant(given.get("due_after"), "due_after"),
            due_before=instant(given.get("due_before"), "due_before"),
        )
    except ValueError:
        raise refuse(Code.INVALID_FIELD, "The filter is not valid.", "status") from None


async def _found(
    request: PageRequest, given: Mapping[str, str], allowed: Sequence[JobStatus]
) -> Found:
    """Take the jobs that were selected, or else those that the filter finds."""
    chosen = request.http.query_params.getlist("jobs")
    if not chosen:
        bulk = request.services.job.bulk
        return await bulk.find(request.actor.tenant_id, _filter(given), allowed)
    try:
        job_ids = [UUID(text) for text in chosen]
    except ValueError:
        raise refuse(Code.INVALID_FIELD, "Select jobs by their ids.", "jobs") from None
    jobs = await request.services.job.read.find_many(request.actor.tenant_id, job_ids)
    return Found({job.job_id: job.status for job in jobs if job.status in allowed}, False)


async def _rehearse(
    request: PageRequest, given: Mapping[str, str], allowed: Sequence[JobStatus]
) -> DryRun:
    found = await _found(request, given, allowed)
    counts = Counter(found.jobs.values())
    facts = [(str(status), f"{many:,}") for status, many in sorted(counts.items())]
    facts = facts or [("Jobs", "no job matches")]
    chosen = len(request.http.query_params.getlist("jobs"))
    if chosen > len(found.jobs):
        facts.append(("Skipped", f"{chosen - len(found.jobs):,} selected that have ended or begun"))
    elif given.get("status") != JobStatus.RUNNING:
        facts.append(("Skipped", "jobs that are running or have ended"))
    if found.more:
        facts.append(("More", f"one run takes {MAX_BULK:,}; run it again for the rest"))
    # What is running began first, then comes what is due, then what waits; each in its own order.
    soonest = sorted(found.jobs, key=lambda job_id: ORDER.index(found.jobs[job_id]))
    oldest = await request.services.job.read.find_many(request.actor.tenant_id, soonest[:SHOWN])
    return DryRun(
        count=len(found.jobs),
        noun="job",
        facts=facts,
        head=HEAD,
        rows=[
            (str(job.job_id), job.status, job.effective_at, job.lane, job.description or "")
            for job in oldest
        ],
        plan=found.jobs,
    )


async def _rehearse_cancel(request: PageRequest, given: Mapping[str, str]) -> DryRun:
    return await _rehearse(request, given, CANCELLABLE)


async def _rehearse_move(request: PageRequest, given: Mapping[str, str]) -> DryRun:
    to = _instant(given)
    first = await request.services.job.bulk.check_instant(request.actor.tenant_id, to)
    shown = await _rehearse(request, given, WAITING)
    spread = f", spread over {to.spread_seconds} s" if to.spread_seconds else ""
    new_instant = [("New time", f"{first:%Y-%m-%d %H:%M:%S} UTC{spread}")]
    return DryRun(
        count=shown.count,
        noun=shown.noun,
        facts=shown.facts + new_instant,
        head=shown.head,
        rows=shown.rows,
        plan=shown.plan,
    )


def _instant(given: Mapping[str, str]) -> Instant:
    try:
        spread = msgspec.convert(given.get("spread") or None, int | None, strict=False)
    except msgspec.ValidationError:
        raise refuse(Code.INVALID_FIELD, "The spread is a whole number.", "spread") from None
    return Instant(run_at=moment_of(given, "at"), spread_seconds=spread)


async def _cancel(request: PageRequest) -> BulkRun:
    found: Mapping[UUID, JobStatus] = plan_of(request)
    reason = reason_of(request)

    async def do(current: PageRequest, piece: Sequence[UUID], _: int) -> BulkStep:
        these = {job_id: found[job_id] for job_id in piece}
        done = await current.services.job.bulk.cancel_these(
            current.actor.tenant_id, these, current.actor.key_id, reason
        )
        return await _outcome(current, piece, done, [JobStatus.CANCELLED], "CANCELLED by now")

    return _work(request, found, "Cancelling jobs", "cancelled", do)


async def _move(request: PageRequest) -> BulkRun:
    found: Mapping[UUID, JobStatus] = plan_of(request)
    to, reason = _instant(request.form), reason_of(request)

    async def do(current: PageRequest, piece: Sequence[UUID], _: int) -> BulkStep:
        these = {job_id: found[job_id] for job_id in piece}
        done = await current.services.job.bulk.move_these(
            current.actor.tenant_id, these, to, current.actor.key_id, reason
        )
        return await _outcome(current, piece, done, WAITING, "that would expire before")

    return _work(request, found, "Rescheduling jobs", "rescheduled", do)


def _work(
    request: PageRequest, found: Mapping[UUID, JobStatus], title: str, verb: str, do: RunStep
) -> BulkRun:
    return BulkRun(
        title=title,
        verb=verb,
        noun="job",
        scope=Scope.JOBS_WRITE,
        back=_back(request),
        # The order in which timers are locked: each piece is then one transaction.
        items=sorted(found, key=lambda job_id: (bucket_of(job_id), job_id)),
        do=do,
    )


async def _outcome(
    request: PageRequest,
    piece: Sequence[UUID],
    done: Changed,
    usual: Collection[JobStatus],
    rest: str,
) -> BulkStep:
    """Return why some were left alone: how they stand now, or else the reason that is left."""
    if done.jobs == len(piece):
        return BulkStep(done.jobs)
    now = await request.services.job.read.find_many(request.actor.tenant_id, piece)
    left = Counter(f"{job.status} by now" for job in now if job.status not in usual)
    left[HELD] += min(done.held, len(piece) - done.jobs - left.total())
    left[rest] += len(piece) - done.jobs - left.total()
    return BulkStep(done.jobs, +left)


_LATE_REASON: Final = Field(name="reason", label=REASON.label, hint=REASON.hint, late=True)
_WHICH: Final = "[ --status {status}]" + FILTER_OPTIONS


def _cancel_body(typed: Typed) -> dict[str, Any]:
    return {"filter": filter_members(typed, *FILTER), "reason": typed["reason"]}


def _move_body(typed: Typed) -> dict[str, Any]:
    spread = {"spread_seconds": typed["spread"]} if "spread" in typed else {}
    return _cancel_body(typed) | {"to": {"run_at": typed["at"], **spread}}


ACTIONS: Final = (
    Action(
        path="/jobs/bulk/cancel",
        scope=Scope.JOBS_WRITE,
        title="Cancel many jobs",
        button="Cancel these",
        means="The jobs found by this dry run end as CANCELLED; those that have started or ended "
        "by then are skipped.",
        back=_back,
        does=_cancel,
        fields=(*FIELDS, _LATE_REASON),
        danger=True,
        rehearse=_rehearse_cancel,
        same=EquivalentCommand(
            operation="cancel_jobs",
            method_name="jobs.cancel_many",
            command="job cancel-many" + _WHICH + " --reason {reason} --yes",
            body=_cancel_body,
        ),
        same_for_each=EquivalentCommand(
            operation="cancel_job", method_name="jobs.cancel", command="job cancel {job_id}"
        ),
    ),
    Action(
        path="/jobs/bulk/reschedule",
        scope=Scope.JOBS_WRITE,
        title="Reschedule many jobs",
        button="Reschedule these",
        means="The jobs found by this dry run get the new time; those that have started or ended "
        "by then are skipped.",
        back=_back,
        does=_move,
        fields=(
            *FIELDS,
            Field(name="at", label="New time", kind="datetime-local", hint="in UTC"),
            Field(
                name="spread",
                label="Spread over seconds",
                kind="number",
                hint="empty: all at that instant",
                required=False,
            ),
            _LATE_REASON,
        ),
        rehearse=_rehearse_move,
        same=EquivalentCommand(
            operation="reschedule_jobs",
            method_name="jobs.reschedule_many",
            command="job reschedule-many --run-at {at}[ --spread-seconds {spread}]"
            + _WHICH
            + " --reason {reason} --yes",
            body=_move_body,
        ),
        same_for_each=EquivalentCommand(
            operation="change_job",
            method_name="jobs.change",
            command="job reschedule {job_id} --run-at {at}",
            body=lambda typed: {"run_at": typed["at"]},
        ),
    ),
)
