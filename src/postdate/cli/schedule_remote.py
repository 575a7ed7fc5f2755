"""`postdate schedule`: everyday commands for schedules, through the HTTP API."""

from typing import Annotated

import cyclopts
from cyclopts import Parameter

from postdate.cli.operator import Json
from postdate.cli.output import show
from postdate.cli.remote import Limit, call, given, listed, parse

schedule_app = cyclopts.App(name="schedule", help="Create, preview, pause and run schedules.")

ScheduleId = Annotated[str, Parameter(help="The id of the schedule.")]


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
def list_all(*, missed: bool = False, limit: Limit = 20, json: Json = False) -> None:
    """List schedules; with --missed those that missed an occurrence."""
    listed("/schedules", "schedules", json=json, limit=limit, missed=str(missed).lower())


@schedule_app.command(name="get")
def get(schedule_id: ScheduleId, *, json: Json = False) -> None:
    """Show a schedule with all of its policies."""
    show(call("GET", f"/schedules/{schedule_id}"), as_json=json)


@schedule_app.command(name="preview")
def preview(schedule_id: ScheduleId, *, count: int = 10, json: Json = False) -> None:
    """Show the next occurrences and what each policy does to them."""
    listed(f"/schedules/{schedule_id}/preview", "occurrences", json=json, count=count)


@schedule_app.command(name="occurrences")
def occurrences(schedule_id: ScheduleId, *, limit: Limit = 20, json: Json = False) -> None:
    """List the book: what became of each occurrence, the newest first."""
    listed(f"/schedules/{schedule_id}/occurrences", "occurrences", json=json, limit=limit)


@schedule_app.command(name="pause")
def pause(schedule_id: ScheduleId, *, note: str | None = None, json: Json = False) -> None:
    """Skip what comes until it is resumed."""
    show(call("POST", f"/schedules/{schedule_id}/pause", given(note=note)), as_json=json)


@schedule_app.command(name="resume")
def resume(schedule_id: ScheduleId, *, json: Json = False) -> None:
    """End a pause."""
    show(call("POST", f"/schedules/{schedule_id}/resume"), as_json=json)


@schedule_app.command(name="trigger")
def trigger(schedule_id: ScheduleId, *, json: Json = False) -> None:
    """Run a schedule once, now."""
    show(call("POST", f"/schedules/{schedule_id}/trigger"), as_json=json)


@schedule_app.command(name="backfill")
def backfill(
    schedule_id: ScheduleId, begin: str, until: str, *, run: bool = False, json: Json = False
) -> None:
    """Say what a range of the past would still run; with --run do it.

    Parameters
    ----------
    schedule_id
        The id of the schedule.
    begin
        The first instant, such as 2030-01-01T00:00:00Z.
    until
        The instant before which the range ends.
    run
        Do it.
    json
        Print JSON.

    """
    body = {"from": begin, "until": until, "dry_run": not run}
    show(call("POST", f"/schedules/{schedule_id}/backfill", body), as_json=json)


@schedule_app.command(name="delete")
def delete(schedule_id: ScheduleId, *, json: Json = False) -> None:
    """End a schedule; what it has made goes on."""
    call("DELETE", f"/schedules/{schedule_id}")
    show({"schedule_id": schedule_id, "deleted": True}, as_json=json)
