"""Everyday commands over HTTP for lanes and events, and waiting for something to end."""

import sys
import time
from typing import Annotated, Any, Final
from urllib.parse import quote

import cyclopts
from cyclopts import Parameter

from postdate.cli.operator import Json
from postdate.cli.output import show
from postdate.cli.remote import Limit, call, given, job_app, listed, payment_app
from postdate.model.errors import StartError

POLL_SECONDS: Final = 0.5
ENDED: Final = frozenset({"COMPLETED", "FAILED", "CANCELLED"})
OTHERWISE: Final = 1
"""The exit code when it ended, but not as was waited for."""

Until = Annotated[str, Parameter(name="--for", help="The status to wait for.")]
Seconds = Annotated[float, Parameter(help="How long to wait at most.")]

lane_app = cyclopts.App(name="lane", help="List, show, pause and resume lanes.")


@lane_app.command(name="list")
def lane_list(*, limit: Limit = 20, json: Json = False) -> None:
    """List the lanes and what waits in them."""
    listed("/lanes", "lanes", json=json, limit=limit)


@lane_app.command(name="get")
def lane_get(lane: str, *, json: Json = False) -> None:
    """Show a lane."""
    show(call("GET", f"/lanes/{quote(lane, safe='')}"), as_json=json)


@lane_app.command(name="pause")
def lane_pause(lane: str, *, note: str | None = None, json: Json = False) -> None:
    """Let nothing of a lane start; what runs goes on."""
    show(call("POST", f"/lanes/{quote(lane, safe='')}/pause", given(note=note)), as_json=json)


@lane_app.command(name="resume")
def lane_resume(lane: str, *, json: Json = False) -> None:
    """Let a lane go on."""
    show(call("POST", f"/lanes/{quote(lane, safe='')}/resume"), as_json=json)


@job_app.command(name="resolve")
def job_resolve(job_id: str, outcome: str, *, json: Json = False) -> None:
    """Say what became of a job in doubt: completed, failed or retry."""
    path = f"/jobs/{quote(job_id, safe='')}/resolve"
    show(call("POST", path, {"outcome": outcome}), as_json=json)


@payment_app.command(name="reschedule")
def payment_reschedule(payment_id: str, *, delay_seconds: int, json: Json = False) -> None:
    """Give an open payment another instant; one that waits for a person is tried again then."""
    path = f"/payments/{quote(payment_id, safe='')}"
    show(call("PATCH", path, {"delay_seconds": delay_seconds}), as_json=json)


@job_app.command(name="wait")
def job_wait(
    job_id: str,
    *,
    until: Until = "COMPLETED",
    timeout_seconds: Seconds = 60.0,
    json: Json = False,
) -> None:
    """Wait until a job has a status; exit code 1 if it ends otherwise or takes too long."""
    _wait(f"/jobs/{quote(job_id, safe='')}", until, timeout_seconds, json=json)


@payment_app.command(name="wait")
def payment_wait(
    payment_id: str,
    *,
    until: Until = "COMPLETED",
    timeout_seconds: Seconds = 60.0,
    json: Json = False,
) -> None:
    """Wait until a payment has a status; exit code 1 if it ends otherwise or takes too long."""
    _wait(f"/payments/{quote(payment_id, safe='')}", until, timeout_seconds, json=json)


def _wait(path: str, until: str, seconds: float, *, json: bool) -> None:
    deadline = time.monotonic() + seconds
    while True:
        found: dict[str, Any] = call("GET", path)
        if found["status"] == until or found["status"] in ENDED:
            break
        if time.monotonic() >= deadline:
            raise StartError(f"it is still {found['status']} after {seconds:g} s")
        time.sleep(POLL_SECONDS)
    show(found, as_json=json)
    if found["status"] != until:
        sys.exit(OTHERWISE)
