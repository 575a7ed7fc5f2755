"""`postdate events verify`: recompute the chains of events, and compare them with their anchors."""

import sys
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final

from postdate.cli.commands.prove import record_check
from postdate.cli.database import with_database
from postdate.cli.output import show, wants_json
from postdate.database.connection.database import Database
from postdate.node.anchor import anchor_path
from postdate.node.settings import load
from postdate.publisher.anchor import AnchorError, AnchorFile, Anchors, collect
from postdate.publisher.verify import ChainReport, verify
from postdate.words.error import StartError

TAMPERED: Final = 7
"""The exit code when a chain does not hold."""


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
