"""`postdate job watch`: follow a job until it ends, line by line, or redrawn on a terminal."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from postdate.cli.operation_command import CommandCall, GivenOptions, OperationCommand, Sugar
from postdate.cli.output import options, show_line
from postdate.cli.sugar import POLL_SECONDS
from postdate.cli.table import printable
from postdate.client.operation import Operation

if TYPE_CHECKING:
    from rich.console import RenderableType

EXITS: Final = {"COMPLETED": 0, "FAILED": 1, "CANCELLED": 8, "UNKNOWN": 9}
"""The exit code for the way in which a job ended, or waits for a person."""

BAR_WIDTH: Final = 40
CHANGES: Final[Sequence[str]] = (
    *("status", "attempt", "next_attempt_at", "cancel_requested_at", "cancel_deadline"),
    *("code", "error", "in_doubt", "result", "result_ref"),
)
"""The fields of a job whose changes are shown; progress and log come beside them."""

LINE: Final = ("status", "attempt", "percent", "note", "log", "code", "error", "result")
"""What a person reads of a change."""


class JobFollower:
    """Remembers what was shown of a job, and finds what is new."""

    def __init__(self) -> None:
        self._shown: dict[str, Any] = {}
        self._attempt = 0
        self._lines = 0

    def news(self, job: dict[str, Any]) -> dict[str, Any] | None:
        """Return the present state with the new lines of the log; None if nothing has changed."""
        progress = job.get("progress") or {}
        state = {name: job[name] for name in CHANGES if name in job}
        state |= {name: progress[name] for name in ("percent", "note") if name in progress}
        lines, dropped = self._new_lines(job.get("attempt", 0), progress)
        if state == self._shown and not lines:
            return None
        self._shown = state
        log = {"log": lines} if lines else {}
        missed = {"log_dropped": dropped} if dropped else {}
        return {"job_id": job["job_id"], **state, **log, **missed}

    def _new_lines(self, attempt: int, progress: dict[str, Any]) -> tuple[list[str], int]:
        """Return the new lines, and how many more were dropped before they were seen."""
        if attempt != self._attempt:
            self._attempt, self._lines = attempt, 0
        lines, gone = progress.get("log") or [], progress.get("log_dropped", 0)
        new, missed = lines[max(self._lines - gone, 0) :], max(gone - self._lines, 0)
        self._lines = gone + len(lines)
        return new, missed


def watch_command(get: Operation) -> OperationCommand:
    """Make the command that follows a job."""
    help_text = (
        "Follow a job until it ends: status, progress, log, result. In a pipe each change is a "
        "line of JSON. Exit code 0 if it completes, 1 if it fails, 8 if it is cancelled, 9 if it "
        "waits in doubt for a person."
    )
    return OperationCommand(get, Sugar(act=_follow, help=help_text))


def _follow(call: CommandCall, _: GivenOptions) -> None:
    follower = JobFollower()
    with _screen() as draw:
        while True:
            job: dict[str, Any] = call.send()
            if (news := follower.news(job)) is not None:
                draw(job, news)
            if job["status"] in EXITS:
                break
            time.sleep(POLL_SECONDS)
    sys.exit(EXITS[job["status"]])


Draw = Callable[[dict[str, Any], dict[str, Any]], None]
"""Shows a job as it is now, and what is new of it."""


@contextmanager
def _screen() -> Iterator[Draw]:
    """Redraw the job on a terminal, under its log; print a line for each change elsewhere."""
    if options().form != "table" or not sys.stdout.isatty():
        yield lambda _, news: show_line(news, LINE)
        return
    from rich.console import Console
    from rich.live import Live

    console = Console()
    with Live(console=console) as live:

        def draw(job: dict[str, Any], news: dict[str, Any]) -> None:
            for line in news.get("log", ()):
                console.print(printable(line), markup=False, highlight=False)
            live.update(_drawn(job))

        yield draw


def _drawn(job: dict[str, Any]) -> "RenderableType":
    """Draw status, progress and what has come of the job."""
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    progress = job.get("progress") or {}
    table = Table.grid(padding=(0, 2))
    table.add_row("Job", Text(job["job_id"]))
    stopping = ", asked to stop" if job.get("cancel_deadline") else ""
    attempt = job.get("attempt", 0)
    table.add_row("Status", Text(f"{job['status']}, attempt {attempt}{stopping}"))
    if (percent := progress.get("percent")) is not None:
        table.add_row("Progress", ProgressBar(completed=percent, total=100, width=BAR_WIDTH))
    facts = {"Note": progress.get("note"), "Code": job.get("code"), "Error": job.get("error")}
    facts |= {"Result": job.get("result"), "Result at": job.get("result_ref")}
    for name, value in facts.items():
        if value is not None:
            table.add_row(name, Text(printable(str(value))))
    return table
