"""`postdate job`: register, show, change and wait for jobs, one or many of them."""

import sys
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Final

import cyclopts
from cyclopts import Parameter

from postdate.cli.output import Json, UsageError, confirm, progress, show
from postdate.cli.remote import (
    PARTLY,
    DryRun,
    Lane,
    Limit,
    Reason,
    ScheduleId,
    Seconds,
    Until,
    Yes,
    call,
    given,
    listed,
    one,
    parse,
    wait,
)

job_app = cyclopts.App(name="job", help="Register, show, change and wait for jobs.")


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Which:
    """Which jobs; at least one of these must be given."""

    lane: Lane | None = None
    status: Annotated[str | None, Parameter(help="PENDING, READY or RUNNING.")] = None
    schedule_id: ScheduleId | None = None
    due_after: Annotated[str | None, Parameter(help="Due after this instant.")] = None
    due_before: Annotated[str | None, Parameter(help="Due before this instant.")] = None


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class To:
    """The new instant: one of the two."""

    run_at: Annotated[str | None, Parameter(help="Such as 2030-01-01T00:00:00Z.")] = None
    delay_seconds: Annotated[float | None, Parameter(help="From now.")] = None

    def body(self) -> dict[str, Any]:
        """Give it as the server takes it."""
        if (self.run_at is None) == (self.delay_seconds is None):
            raise UsageError("give either --run-at or --delay-seconds")
        return given(**asdict(self))


NOWHERE: Final = To()


@job_app.command(name="create")
def job_create(
    *,
    url: str | None = None,
    lane: Lane | None = None,
    delay_seconds: float | None = None,
    payload: str | None = None,
    idempotency_key: str | None = None,
    json: Json = False,
) -> None:
    """Register a job: a webhook with --url, else work for pull workers of a lane.

    Parameters
    ----------
    url
        Where the webhook is called.
    lane
        The lane of the job.
    delay_seconds
        When it is due, from now.
    payload
        What is delivered, as JSON.
    idempotency_key
        Makes repeating the command harmless.
    json
        Print JSON.

    """
    destination = {"type": "webhook", "url": url} if url else {"type": "worker"}
    body = given(
        destination=destination, lane=lane, delay_seconds=delay_seconds, payload=parse(payload)
    )
    show(call("POST", "/jobs", body, idempotency_key=idempotency_key), as_json=json)


@job_app.command(name="get")
def job_get(job_id: str, *, json: Json = False) -> None:
    """Show a job."""
    show(call("GET", one("/jobs", job_id)), as_json=json)


@job_app.command(name="list")
def job_list(
    *, status: str | None = None, lane: Lane | None = None, limit: Limit = 20, json: Json = False
) -> None:
    """List jobs, newest first."""
    listed("/jobs", "jobs", json=json, status=status, lane=lane, limit=limit)


@job_app.command(name="attempts")
def job_attempts(job_id: str, *, json: Json = False) -> None:
    """List what was tried."""
    listed(one("/jobs", job_id, "attempts"), "attempts", json=json)


@job_app.command(name="cancel")
def job_cancel(job_id: str, *, json: Json = False) -> None:
    """Cancel a job."""
    show(call("POST", one("/jobs", job_id, "cancel"), {}), as_json=json)


@job_app.command(name="run-now")
def job_run_now(job_id: str, *, json: Json = False) -> None:
    """Make a pending job due now."""
    show(call("POST", one("/jobs", job_id, "run-now"), {}), as_json=json)


@job_app.command(name="resolve")
def job_resolve(job_id: str, outcome: str, *, json: Json = False) -> None:
    """Say what became of a job in doubt: completed, failed or retry."""
    path = one("/jobs", job_id, "resolve")
    show(call("POST", path, {"outcome": outcome}), as_json=json)


@job_app.command(name="wait")
def job_wait(
    job_id: str,
    *,
    until: Until = "COMPLETED",
    timeout_seconds: Seconds = 60.0,
    json: Json = False,
) -> None:
    """Wait until a job has a status; exit code 1 if it ends otherwise or takes too long."""
    wait(one("/jobs", job_id), until, timeout_seconds, json=json)


@job_app.command(name="reschedule")
def job_reschedule(job_id: str, *, to: To = NOWHERE, json: Json = False) -> None:
    """Give a job that has not begun another instant."""
    show(call("PATCH", one("/jobs", job_id), to.body()), as_json=json)


@job_app.command(name="cancel-many")
def job_cancel_many(
    *,
    which: Which | None = None,
    reason: Reason = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Cancel all jobs that a filter finds; it says first how many those are."""
    body = given(filter=_filter(which), reason=reason)
    _many("/jobs/bulk/cancel", "cancel", body, dry_run=dry_run, yes=yes, json=json)


@job_app.command(name="reschedule-many")
def job_reschedule_many(
    *,
    which: Which | None = None,
    to: To = NOWHERE,
    spread_seconds: Annotated[int | None, Parameter(help="Spread them over so long.")] = None,
    reason: Reason = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Give all jobs that a filter finds another instant, outside of the filter's own range.

    It says first how many those are.
    """
    instant = to.body() | given(spread_seconds=spread_seconds)
    body = given(filter=_filter(which), to=instant, reason=reason)
    _many("/jobs/bulk/reschedule", "reschedule", body, dry_run=dry_run, yes=yes, json=json)


def _filter(which: Which | None) -> dict[str, Any]:
    wanted = given(**asdict(which)) if which else {}
    if not wanted:
        raise UsageError("say which jobs: --lane, --status, --schedule-id, --due-after, …")
    return wanted


def _many(
    path: str, verb: str, body: dict[str, Any], *, dry_run: bool, yes: bool, json: bool
) -> None:
    """Count first, ask, then change as many at a time as one call does."""
    found = call("POST", path, {**body, "dry_run": True})
    count = sum(found["matched"].values())
    if dry_run or not count:
        show(found, as_json=json)
        return
    more = " and more" if found["more"] else ""
    confirm(f"{verb} {count:,} jobs{more}", yes=yes, as_json=json)
    matched, changed = 0, 0
    with progress(f"{verb} jobs", None) as step:
        while True:
            told = call("POST", path, {**body, "dry_run": False})
            matched += sum(told["matched"].values())
            changed += told["changed"]
            step(f"{changed:,} jobs")
            if not told["more"] or not told["changed"]:
                break
    show({"matched": matched, "changed": changed}, as_json=json)
    if changed < matched:
        sys.exit(PARTLY)
