"""`postdate schedule`: everyday commands for schedules, through the HTTP API."""

import sys

import cyclopts

from postdate.cli.output import Json, confirm, progress, show
from postdate.cli.remote import (
    PARTLY,
    DryRun,
    Limit,
    Reason,
    ScheduleId,
    Yes,
    call,
    given,
    listed,
    parse,
)

schedule_app = cyclopts.App(name="schedule", help="Create, preview, pause and run schedules.")


@schedule_app.command(name="create")
def create(body: str, *, idempotency_key: str | None = None, json: Json = False) -> None:
    """Create a schedule from the JSON that `POST /schedules` takes.

    Parameters
    ----------
    body
        The schedule as JSON.
    idempotency_key
        Makes repeating the command harmless.
    json
        Print JSON.

    """
    show(call("POST", "/schedules", parse(body), idempotency_key=idempotency_key), as_json=json)


@schedule_app.command(name="list")
def list_all(
    *, missed: bool = False, set_aside: bool = False, limit: Limit = 20, json: Json = False
) -> None:
    """List schedules; with --missed those that missed an occurrence.

    Parameters
    ----------
    missed
        Only those that missed an occurrence.
    set_aside
        Only those that cannot be expanded.
    limit
        How many at most.
    json
        Print JSON.

    """
    wanted = {"missed": str(missed).lower(), "set_aside": str(set_aside).lower()}
    listed("/schedules", "schedules", json=json, limit=limit, **wanted)


@schedule_app.command(name="get")
def get(schedule_id: ScheduleId, *, json: Json = False) -> None:
    """Show a schedule with all of its policies."""
    show(call("GET", f"/schedules/{schedule_id}"), as_json=json)


@schedule_app.command(name="preview")
def preview(  # noqa: PLR0913 - one option for each part of a rule
    schedule_id: ScheduleId | None = None,
    *,
    cron: str | None = None,
    rrule: str | None = None,
    every_seconds: int | None = None,
    timezone: str | None = None,
    calendar: str | None = None,
    roll: str | None = None,
    body: str | None = None,
    count: int = 10,
    json: Json = False,
) -> None:
    """Show the next occurrences, and warnings: of a schedule, or of a rule before it is created.

    Parameters
    ----------
    schedule_id
        The id of a schedule; without it give a rule.
    cron
        A cron expression, such as "30 2 * * *".
    rrule
        A rule of RFC 5545.
    every_seconds
        An interval.
    timezone
        The zone whose wall clock cron and rrule speak of.
    calendar
        The name of a business calendar.
    roll
        What happens on a closed day: following, modified_following, preceding.
    body
        All of it as the JSON that `POST /schedules/preview` takes.
    count
        How many occurrences.
    json
        Print JSON.

    """
    if schedule_id is not None:
        told = call("GET", f"/schedules/{schedule_id}/preview?count={count}")
    else:
        rule = given(cron=cron, rrule=rrule, every_seconds=every_seconds, timezone=timezone)
        days = given(calendar=calendar, roll=roll)
        asked = {} if body is None else parse(body)
        told = call("POST", "/schedules/preview", {"count": count, **asked, **rule, **days})
    if not json:
        print(f"{told['words']}, {told['timezone']}", file=sys.stderr)
        for warning in told["warnings"]:
            print(f"warning: {warning['detail']}", file=sys.stderr)
    show(told if json else told["occurrences"], as_json=json)


@schedule_app.command(name="occurrences")
def occurrences(schedule_id: ScheduleId, *, limit: Limit = 20, json: Json = False) -> None:
    """List the book: what became of each occurrence, the newest first."""
    listed(f"/schedules/{schedule_id}/occurrences", "occurrences", json=json, limit=limit)


@schedule_app.command(name="pause")
def pause(schedule_id: ScheduleId, *, reason: Reason = None, json: Json = False) -> None:
    """Skip what comes until it is resumed."""
    show(call("POST", f"/schedules/{schedule_id}/pause", given(note=reason)), as_json=json)


@schedule_app.command(name="resume")
def resume(schedule_id: ScheduleId, *, json: Json = False) -> None:
    """End a pause, or try again what was set aside."""
    show(call("POST", f"/schedules/{schedule_id}/resume"), as_json=json)


@schedule_app.command(name="trigger")
def trigger(
    schedule_id: ScheduleId, *, idempotency_key: str | None = None, json: Json = False
) -> None:
    """Run a schedule once, now.

    Parameters
    ----------
    schedule_id
        The id of the schedule.
    idempotency_key
        Makes repeating the command harmless.
    json
        Print JSON.

    """
    path = f"/schedules/{schedule_id}/trigger"
    show(call("POST", path, idempotency_key=idempotency_key), as_json=json)


@schedule_app.command(name="backfill")
def backfill(
    schedule_id: ScheduleId,
    begin: str,
    until: str,
    *,
    dry_run: DryRun = False,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Run what a range of the past has not run; it says first how much that is.

    Parameters
    ----------
    schedule_id
        The id of the schedule.
    begin
        The first instant, such as 2030-01-01T00:00:00Z.
    until
        The instant before which the range ends.
    dry_run
        Only say what would be done.
    yes
        Do it without being asked.
    json
        Print JSON.

    """
    path = f"/schedules/{schedule_id}/backfill"
    body = {"from": begin, "until": until}
    found = call("POST", path, {**body, "dry_run": True})
    if dry_run or not found["runs"]:
        show(found, as_json=json)
        return
    confirm(f"run {found['runs']:,} occurrences", yes=yes, as_json=json)
    with progress("backfilling", None) as step:
        told = call("POST", path, {**body, "dry_run": False})
        step(f"{told['runs']:,} occurrences")
    show(told, as_json=json)
    if told["runs"] < found["runs"]:
        sys.exit(PARTLY)


@schedule_app.command(name="delete")
def delete(schedule_id: ScheduleId, *, json: Json = False) -> None:
    """End a schedule; what it has made goes on."""
    call("DELETE", f"/schedules/{schedule_id}")
    show({"schedule_id": schedule_id, "deleted": True}, as_json=json)
