"""Cancel and reschedule many jobs, selected or found by a filter, after a dry run."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final
from urllib.parse import urlencode

from postdate.console.button import LATE_REASON, Button, Each
from postdate.console.dry_run import DryRun, selected_ids
from postdate.console.form_field import FieldSpec
from postdate.console.operation import ENDPOINT_BY_NAME, BodyFields, decode_body
from postdate.console.page_request import PageRequest
from postdate.core.ids import bucket_of
from postdate.core.status import JobStatus
from postdate.job.change.bulk import CANCELLABLE, MAX_BULK, WAITING, Found
from postdate.job.spec.bulk import BulkFilter

SHOWN: Final = 5
"""How many of them a dry run shows: the oldest."""

SELECTED: Final = "jobs"
ORDER: Final = (JobStatus.RUNNING, JobStatus.READY, JobStatus.PENDING)
HEAD: Final = ("Job", "Status", "Due", "Lane", "Description")
FILTER_NAMES: Final = {
    "status": "filter.status",
    "lane": "filter.lane",
    "schedule": "filter.schedule_id",
    "key": "filter.key",
    "priority": "filter.priority",
    "due_after": "filter.due_after",
    "due_before": "filter.due_before",
    "destination": "filter.destination",
    "unique": "filter.unique",
}
"""The filters of the list of jobs, and the field of a form for each."""
_FILTER: Final[tuple[str | FieldSpec, ...]] = (
    FieldSpec(
        "filter.status",
        hint="PENDING and READY if empty",
        choices=tuple(map(str, reversed(ORDER))),
    ),
    *(name for name in FILTER_NAMES.values() if name != "filter.status"),
)


def filter_query(given: Mapping[str, Any], prefix: str = "") -> str:
    """Return the query by which a list of jobs fills in the filter of a form."""
    names = {**FILTER_NAMES, "code": "filter.code"}
    wanted = {path: given.get(name) for name, path in names.items()}
    found = {f"{prefix}{path}": value for path, value in wanted.items() if value not in {None, ""}}
    return urlencode({path: str(value) for path, value in found.items()})


def _back(request: PageRequest) -> str:
    given = request.form or request.http.query_params
    kept = {name: given[path] for name, path in FILTER_NAMES.items() if given.get(path)}
    return "/jobs" + (f"?{urlencode(kept)}" if kept else "")


async def _found(request: PageRequest, wanted: BulkFilter, allowed: Sequence[JobStatus]) -> Found:
    """Take the selected jobs, or else the jobs that the filter finds."""
    tenant_id, chosen = request.actor.tenant_id, selected_ids(request, SELECTED)
    if not chosen:
        return await request.services.job.bulk.find(tenant_id, wanted, allowed)
    jobs = await request.services.job.read.find_many(tenant_id, chosen)
    return Found({job.job_id: job.status for job in jobs if job.status in allowed}, False)


async def _rehearse(
    request: PageRequest, wanted: BulkFilter, allowed: Sequence[JobStatus]
) -> DryRun:
    found = await _found(request, wanted, allowed)
    # What is running began first, then comes what is due, then what waits; each in its own order.
    soonest = sorted(found.jobs, key=lambda job_id: ORDER.index(found.jobs[job_id]))
    oldest = await request.services.job.read.find_many(request.actor.tenant_id, soonest[:SHOWN])
    return DryRun(
        count=len(found.jobs),
        noun="job",
        facts=_facts(found, wanted, len(selected_ids(request, SELECTED))),
        head=HEAD,
        rows=[
            (str(job.job_id), job.status, job.effective_at, job.lane, job.description or "")
            for job in oldest
        ],
        # The order in which timers are locked: each piece is then one transaction.
        items=sorted(found.jobs, key=lambda job_id: (bucket_of(job_id), job_id)),
        seen=found.jobs,
    )


def _facts(found: Found, wanted: BulkFilter, chosen: int) -> list[tuple[str, str]]:
    counts = Counter(found.jobs.values())
    facts = [(str(status), f"{many:,}") for status, many in sorted(counts.items())]
    facts = facts or [("Jobs", "no job matches")]
    if chosen > len(found.jobs):
        facts.append(("Skipped", f"{chosen - len(found.jobs):,} selected that have ended or begun"))
    elif wanted.status is not JobStatus.RUNNING:
        facts.append(("Skipped", "jobs that are running or have ended"))
    if found.more:
        facts.append(("More", f"one run takes {MAX_BULK:,}; run it again for the rest"))
    return facts


async def _rehearse_cancel(request: PageRequest, body: BodyFields) -> DryRun:
    asked = decode_body(ENDPOINT_BY_NAME["cancel_jobs"], body)
    return await _rehearse(request, asked.filter, CANCELLABLE)


async def _rehearse_move(request: PageRequest, body: BodyFields) -> DryRun:
    asked = decode_body(ENDPOINT_BY_NAME["reschedule_jobs"], body)
    first = await request.services.job.bulk.check_instant(request.actor.tenant_id, asked.to)
    shown = await _rehearse(request, asked.filter, WAITING)
    spread = f", spread over {asked.to.spread_seconds} s" if asked.to.spread_seconds else ""
    new_instant = ("New time", f"{first:%Y-%m-%d %H:%M:%S} UTC{spread}")
    return replace(shown, facts=[*shown.facts, new_instant])


BUTTONS: Final = (
    Button(
        "cancel_jobs",
        at="/jobs/bulk/cancel",
        label="Cancel these",
        title="Cancel many jobs",
        means="The jobs found by this dry run end as CANCELLED; jobs that have started or ended "
        "by then are skipped. Workers of running jobs are asked to stop, and lose them at the "
        "deadline.",
        danger=True,
        fields=(*_FILTER, LATE_REASON),
        fixed={"filter": {}},
        back=_back,
        rehearse=_rehearse_cancel,
        bulk=True,
        selects=SELECTED,
        each=Each("cancel_job"),
    ),
    Button(
        "reschedule_jobs",
        at="/jobs/bulk/reschedule",
        label="Reschedule these",
        title="Reschedule many jobs",
        means="The jobs found by this dry run get the new time; jobs that have started or ended "
        "by then are skipped.",
        fields=(
            *_FILTER,
            FieldSpec("to.run_at", label="New time", required=True),
            "to.spread_seconds",
            LATE_REASON,
        ),
        fixed={"filter": {}},
        back=_back,
        rehearse=_rehearse_move,
        bulk=True,
        selects=SELECTED,
        each=Each("change_job", {"run_at": "to.run_at"}),
    ),
)
