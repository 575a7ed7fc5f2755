"""`postdate dead-letter`: list, show, redrive and purge permanently failed jobs."""

import sys
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import cyclopts
from cyclopts import Parameter

from postdate.cli.noun import Noun
from postdate.cli.output import UsageError, confirm, progress, show
from postdate.cli.remote import (
    PARTLY,
    DryRun,
    Lane,
    Limit,
    Reason,
    ScheduleId,
    Yes,
    call,
    print_page,
    without_none,
)

dead_letter_app = cyclopts.App(
    name="dead-letter", help="List, redrive and purge permanently failed jobs."
)
Noun(dead_letter_app, "/dead-letters", "job_id").get("Show a failed job with every attempt at it.")


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class FailedJobOptions:
    """Which failed jobs; the instants are those of their last attempt."""

    lane: Lane | None = None
    schedule_id: ScheduleId | None = None
    due_after: Annotated[str | None, Parameter(help="Due after this instant.")] = None
    due_before: Annotated[str | None, Parameter(help="Due before this instant.")] = None
    code: Annotated[str | None, Parameter(help="Failed with this code, such as http_500.")] = None


@dead_letter_app.command(name="list")
def dead_letter_list(
    *, which: FailedJobOptions | None = None, payments: bool = False, limit: Limit = 20
) -> None:
    """List permanently failed jobs, or (--payments) payments that wait for a person."""
    kind = "payment" if payments else "job"
    wanted = {**_wanted(which), "type": kind, "limit": limit}
    print_page("/dead-letters", f"{kind}s", **wanted)


@dead_letter_app.command(name="redrive")
def dead_letter_redrive(
    *job_ids: Annotated[
        str, Parameter(help="Ids of the jobs; without ids, all that match the filter.")
    ],
    which: FailedJobOptions | None = None,
    per_second: Annotated[
        float | None,
        Parameter(help="Redrive this many a second, so that the destination is not overloaded."),
    ] = None,
    reason: Reason = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Redrive failed jobs: create new jobs that name the failed ones as their origin."""
    body = _chosen(job_ids, which) | without_none(per_second=per_second, reason=reason)
    path = "/dead-letters/redrive"
    if dry_run or not job_ids:
        report = _pages(path, {**body, "dry_run": True}, "counting", "redriven")
        if dry_run or not report["redriven"]:
            show(report)
            return
        confirm(f"redrive {report['redriven']:,} jobs", yes=yes)
    report = _pages(path, body, "redriving", "redriven")
    show(report)
    if report["redriven"] < len(report["outcomes"]):
        sys.exit(PARTLY)


@dead_letter_app.command(name="purge")
def dead_letter_purge(
    *job_ids: str,
    which: FailedJobOptions | None = None,
    reason: Reason = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Remove failed jobs and their history permanently, after confirmation."""
    body = _chosen(job_ids, which) | without_none(reason=reason)
    path = "/dead-letters/purge"
    report = _pages(path, {**body, "dry_run": True}, "counting", "purged")
    if dry_run or not report["purged"]:
        show({"purged": report["purged"]})
        return
    confirm(f"purge {report['purged']:,} jobs permanently", yes=yes)
    report = _pages(path, body, "purging", "purged")
    show({"purged": report["purged"]})


def _wanted(which: FailedJobOptions | None) -> dict[str, Any]:
    return without_none(**asdict(which)) if which else {}


def _chosen(job_ids: tuple[str, ...], which: FailedJobOptions | None) -> dict[str, Any]:
    wanted = _wanted(which)
    if bool(job_ids) == bool(wanted):
        raise UsageError("give ids of jobs, or a filter: --lane, --schedule-id, --due-after, …")
    return {"job_ids": list(job_ids)} if job_ids else {"filter": wanted}


def _pages(path: str, body: dict[str, Any], label: str, counted: str) -> dict[str, Any]:
    """Repeat a call with its cursor until the filter is exhausted."""
    count, outcomes, cursor = 0, [], None
    with progress(label, None) as step:
        while True:
            page = call("POST", path, body | without_none(cursor=cursor))
            count += page[counted]
            outcomes += page.get("outcomes", [])
            step(f"{count:,} jobs")
            cursor = page["next_cursor"]
            if cursor is None:
                return {counted: count, "outcomes": outcomes}
