"""`postdate events`: list and follow what happened, and verify that nobody has changed it."""

import sys
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

from cyclopts import Parameter

from postdate.cli.commands.prove import record_check
from postdate.cli.database import with_database
from postdate.cli.noun import find, noun_app
from postdate.cli.output import show, show_line, wants_json
from postdate.cli.remote import send
from postdate.database.connection.database import Database
from postdate.node.anchor import anchor_path
from postdate.node.settings import load
from postdate.publisher.anchor import AnchorError, AnchorFile, Anchors, collect
from postdate.publisher.verify import ChainReport, verify
from postdate.words.error import StartError

WAIT_SECONDS: Final = 20
PAGE: Final = 100
SHOWN: Final = ("time", "type", "subject", "actor")
"""What a person reads of each event; a program gets all of it."""

Types = Annotated[str | None, Parameter(help="Such as payment.completed,job.*")]
Subject = Annotated[str | None, Parameter(help="Only events of this job, payment or schedule.")]
After = Annotated[str, Parameter(help="beginning, now, or the cursor of a page.")]
TAMPERED: Final = 7
"""The exit code when a chain does not hold."""

events_app = noun_app("events")
LIST: Final = find("events", "list_events")


@events_app.command(name="tail")
def events_tail(
    *,
    types: Types = None,
    subject: Subject = None,
    after: After = "now",
    count: Annotated[int | None, Parameter(help="Stop after this many events.")] = None,
) -> None:
    """Print events as they come, until interrupted; in a pipe as JSON lines."""
    left = count
    while left is None or left > 0:
        limit = PAGE if left is None else min(PAGE, left)
        query = {"types": types, "subject": subject, "after": after, "limit": limit}
        page: dict[str, Any] = send(LIST, {**query, "wait_seconds": WAIT_SECONDS})
        for event in page["events"]:
            show_line(event, SHOWN)
        after = page["next_cursor"]
        left = None if left is None else left - len(page["events"])


@events_app.command(name="verify")
def verify_events(*, anchor: Path | None = None) -> None:
    """Recompute every chain and compare it with the anchor; exit 7 if anything is wrong.

    Parameters
    ----------
    anchor
        File with the anchored heads (POSTDATE_ANCHOR, else anchor.jsonl in the data directory).

    """
    file = AnchorFile(anchor or anchor_path(load()))
    if anchor is None and not file.path.exists():
        print(f"postdate: there is no anchor at {file.path}; chains only.", file=sys.stderr)
        anchors = {}
    else:
        try:
            anchors = collect(file.lines())
        except AnchorError as error:
            raise StartError(str(error)) from error
    report = with_database(partial(_verify, anchors))
    _print(report)
    if not report.ok:
        sys.exit(TAMPERED)


async def _verify(anchors: Mapping[int, Anchors], database: Database) -> ChainReport:
    from rich.console import Console

    began = time.monotonic()
    with Console(stderr=True).status("verifying") as status:
        report = await verify(
            database,
            anchors,
            lambda done, total: status.update(f"{done:,} of {total:,} links verified"),
        )
    await record_check(database, "verify", time.monotonic() - began, len(report.findings))
    return report


def _print(report: ChainReport) -> None:
    if wants_json() or not report.findings:
        show(report if wants_json() else _summary(report))
    else:
        show(report.findings)


def _summary(report: ChainReport) -> dict[str, object]:
    return {"ok": report.ok, "links": report.links, "anchored": report.anchored}
