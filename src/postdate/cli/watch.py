"""`--watch`: repeat a read-only command until it is interrupted."""

import sys
import time
from collections.abc import Sequence
from typing import Final

import cyclopts

from postdate.cli.output import UsageError, options

SECONDS: Final = 2.0
READING: Final = frozenset({
    "schedule preview", "status", "audit", "settlement status", "restore status", "setting list",
    "tenant list", "tenant halts", "tenant roles", "node list", "history list",
})  # fmt: skip
"""The commands that change nothing and are no GET of the API."""

CLEAR: Final = "\x1b[H\x1b[2J"


def run(app: cyclopts.App, words: Sequence[str]) -> None:
    """Run a command once or repeatedly: redrawn on a terminal, as JSON lines elsewhere."""
    asked = options()
    if not asked.watch:
        app(words)
        return
    if not _reads(app, words):
        raise UsageError("--watch repeats commands that only read, such as `job list`")
    if asked.form == "table" and not sys.stdout.isatty():
        asked.form = "jsonl"
    while True:
        if sys.stdout.isatty():
            print(CLEAR, end="")
        app(words, result_action="return_value")
        time.sleep(SECONDS)


def _reads(app: cyclopts.App, words: Sequence[str]) -> bool:
    """Tell whether a command may be repeated; what it is about may have any name."""
    chain, apps, _ = app.parse_commands(words)
    return getattr(apps[-1].default_command, "reads", False) or " ".join(chain) in READING
