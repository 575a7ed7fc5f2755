"""`--watch`: run a command that only reads again and again, until it is stopped."""

import sys
import time
from collections.abc import Sequence
from typing import Final

import cyclopts

from postdate.cli.output import Choice, UsageError

FLAG: Final = "--watch"
SECONDS: Final = 2.0
READING: Final = frozenset({
    "list", "get", "status", "attempts", "entries", "occurrences", "preview", "audit", "events",
    "executions", "approvals", "halts",
})  # fmt: skip
"""The commands that may be repeated: they change nothing."""

CLEAR: Final = "\x1b[H\x1b[2J"


class Wish:
    """Whether the command line asked for it."""

    watching = False


def take(words: Sequence[str]) -> list[str]:
    """Take `--watch` out of a command line; only what reads can be watched."""
    left = [word for word in words if word != FLAG]
    Wish.watching = len(left) < len(words)
    if Wish.watching and not READING.intersection(left[:3]):
        raise UsageError(f"{FLAG} repeats commands that only read, such as `job list`")
    return left


def run(app: cyclopts.App, words: Sequence[str]) -> None:
    """Run a command, once or for ever: redrawn on a terminal, as JSON lines elsewhere."""
    if not Wish.watching:
        app(words)
        return
    if Choice.form == "table" and not sys.stdout.isatty():
        Choice.form = "jsonl"
    while True:
        if sys.stdout.isatty():
            print(CLEAR, end="")
        app(words, result_action="return_value")
        time.sleep(SECONDS)
