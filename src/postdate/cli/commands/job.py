"""`postdate job`: create, show, change and wait for jobs, one or many."""

import sys
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Final

import cyclopts
from cyclopts import Parameter

from postdate.cli.choice import JobStatus, OpenStatus, Resolution
from postdate.cli.noun import Noun
from postdate.cli.option_group import ContentOptions, RetryOptions, TargetOptions
from postdate.cli.output import UsageError, confirm, progress, show
from postdate.cli.remote import (
    PARTLY,
    DryRun,
    Key,
    Lane,
    Limit,
    Reason,
    ScheduleId,
    Seconds,
    Yes,
    call,
    item_path,
    parse,
    print_page,
    wait,
    without_none,
)

job_app = cyclopts.App(name="job", help="Create, show, change and wait for jobs.")
jobs = Noun(job_app, "/jobs", "job_id")
jobs.get("Show a job.")
jobs.list_of_one("attempts", "List the attempts at a job.", paged=False)
jobs.act("cancel", "Cancel a job.", body={})
jobs.act("receipt", "Get the signed receipt of a job that has ended.", method="GET")
jobs.act("run-now", "Make a pending job due now.", body={})


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class OpenJobOptions:
    """Which jobs; at least one of these must be given."""

    lane: Lane | None = None
    status: Annotated[OpenStatus | None, Parameter(help="Where they stand.")] = None
    schedule_id: ScheduleId | None = None
    due_after: Annotated[str | None, Parameter(help="Due after this instant.")] = None
    due_before: Annotated[str | None, Parameter(help="Due before this instant.")] = None


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class NewTimeOptions:
    """The new instant: one of the two."""

    run_at: Annotated[str | None, Parameter(help="Such as 2030-01-01T00:00:00Z.")] = None
    delay_seconds: Annotated[float | None, Parameter(help="From now.")] = None

    def body(self) -> dict[str, Any]:
        """Return the fields of the request."""
        if (self.run_at is None) == (self.delay_seconds is None):
            raise UsageError("give either --run-at or --delay-seconds")
        return without_none(**asdict(self))


NOWHERE: Final = NewTimeOptions()
ANYWHERE: Final = TargetOptions()
EMPTY: Final = ContentOptions()
USUAL: Final = RetryOptions()


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class TimingOptions:
    """When a job is due, and how long it may take."""

    run_at: Annotated[str | None, Parameter(help="Such as 2030-01-01T00:00:00Z.")] = None
    delay_seconds: Annotated[float | None, Parameter(help="When it is due, from now.")] = None
    spread_seconds: Annotated[int | None, Parameter(help="Spread jobs of one instant.")] = None
    timeout_seconds: Annotated[float | None, Parameter(help="How long one attempt takes.")] = None
    expires_at: Annotated[str | None, Parameter(help="Do not start it after this.")] = None

    def body(self) -> dict[str, Any]:
        """Return the fields of the request."""
        if self.run_at is not None and self.delay_seconds is not None:
            raise UsageError("give either --run-at or --delay-seconds")
        return without_none(**asdict(self))


NOW: Final = TimingOptions()


@job_app.command(name="create")
def job_create(
    *,
    target: TargetOptions = ANYWHERE,
    lane: Lane | None = None,
    when: TimingOptions = NOW,
    content: ContentOptions = EMPTY,
    tries: RetryOptions = USUAL,
    idempotency_key: Key = None,
) -> None:
    """Create a job: a webhook, a message on a queue, or else work for the workers of a lane."""
    body = without_none(destination=target.body(), lane=lane, retry=tries.body())
    body |= when.body() | content.body()
    show(call("POST", "/jobs", body, idempotency_key=idempotency_key))


@job_app.command(name="change")
def job_change(job_id: str, body: str) -> None:
    """Change a job that has not started, with the JSON of `PATCH /jobs/{job_id}`."""
    show(call("PATCH", item_path("/jobs", job_id), parse(body)))


@job_app.command(name="list")
def job_list(
    *,
    status: JobStatus | None = None,
    lane: Lane | None = None,
    schedule_id: ScheduleId | None = None,
    due_after: str | None = None,
    due_before: str | None = None,
    limit: Limit = 20,
) -> None:
    """List jobs, newest first."""
    query = {"status": status, "lane": lane, "schedule_id": schedule_id, "limit": limit}
    due = {"due_after": due_after, "due_before": due_before}
    print_page("/jobs", "jobs", **query, **due)


@job_app.command(name="resolve")
def job_resolve(job_id: str, outcome: Resolution) -> None:
    """Resolve a job whose status is UNKNOWN."""
    path = item_path("/jobs", job_id, "resolve")
    show(call("POST", path, {"outcome": outcome}))


@job_app.command(name="wait")
def job_wait(
    job_id: str,
    *,
    until: Annotated[JobStatus, Parameter(name="--for", help="The status.")] = "COMPLETED",
    timeout_seconds: Seconds = 60.0,
) -> None:
    """Wait until a job has a status; exit code 1 if it ends otherwise or takes too long."""
    wait(item_path("/jobs", job_id), until, timeout_seconds)


@job_app.command(name="reschedule")
def job_reschedule(job_id: str, *, to: NewTimeOptions = NOWHERE) -> None:
    """Reschedule a job that has not started."""
    show(call("PATCH", item_path("/jobs", job_id), to.body()))


@job_app.command(name="cancel-many")
def job_cancel_many(
    *,
    which: OpenJobOptions | None = None,
    reason: Reason = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Cancel all jobs that match a filter, after confirming their number."""
    body = without_none(filter=_filter(which), reason=reason)
    _change_by_filter("/jobs/bulk/cancel", "cancel", body, dry_run=dry_run, yes=yes)


@job_app.command(name="reschedule-many")
def job_reschedule_many(
    *,
    which: OpenJobOptions | None = None,
    to: NewTimeOptions = NOWHERE,
    spread_seconds: Annotated[int | None, Parameter(help="Spread them over this time.")] = None,
    reason: Reason = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Reschedule all jobs that match a filter to an instant outside the filter's range.

    Asks for confirmation of their number first.
    """
    instant = to.body() | without_none(spread_seconds=spread_seconds)
    body = without_none(filter=_filter(which), to=instant, reason=reason)
    _change_by_filter("/jobs/bulk/reschedule", "reschedule", body, dry_run=dry_run, yes=yes)


def _filter(which: OpenJobOptions | None) -> dict[str, Any]:
    wanted = without_none(**asdict(which)) if which else {}
    if not wanted:
        raise UsageError("give a filter: --lane, --status, --schedule-id, --due-after, …")
    return wanted


def _change_by_filter(
    path: str, verb: str, body: dict[str, Any], *, dry_run: bool, yes: bool
) -> None:
    """Count the jobs, ask for confirmation, then change them call by call."""
    found = call("POST", path, {**body, "dry_run": True})
    count = sum(found["matched"].values())
    if dry_run or not count:
        show(found)
        return
    more = " and more" if found["more"] else ""
    confirm(f"{verb} {count:,} jobs{more}", yes=yes)
    matched, changed = 0, 0
    with progress(f"{verb} jobs", None) as step:
        while True:
            answer = call("POST", path, {**body, "dry_run": False})
            matched += sum(answer["matched"].values())
            changed += answer["changed"]
            step(f"{changed:,} jobs")
            if not answer["more"] or not answer["changed"]:
                break
    show({"matched": matched, "changed": changed})
    if changed < matched:
        sys.exit(PARTLY)
