"""`--watch`: repeat a read-only command until it is interrupted."""

import sys
import time
from collections.abc import Sequence
from typing import Final

import cyclopts

from postdate.cli.output import UsageError, options

SECONDS: Final = 2.0
READING: Final = frozenset({
    "list", "get", "status", "attempts", "entries", "occurrences", "preview", "audit", "events",
    "executions", "approvals", "halts",
})  # fmt: skip
"""The commands that may be repeated: they change nothing."""

CLEAR: Final = "\x1b[H\x1b[2J"


def run(app: cyclopts.App, words: Sequence[str]) -> None:
    """Run a command once or repeatedly: redrawn on a terminal, as JSON lines elsewhere."""
    asked = options()
    if not asked.watch:
        app(words)
        return
    if not READING.intersection(words[:3]):
        raise UsageError("--watch repeats commands that only read, such as `job list`")
    if asked.form == "table" and not sys.stdout.isatty():
        asked.form = "jsonl"
    while True:
        if sys.stdout.isatty():
            print(CLEAR, end="")
        app(words, result_action="return_value")
        time.sleep(SECONDS)
