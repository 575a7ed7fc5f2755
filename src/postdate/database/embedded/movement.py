"""Read from the processes of a server how much each has done."""

import re
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

import psutil

from postdate.core.log import Log
from postdate.database.embedded import judge, process
from postdate.database.embedded.judge import Judgement, Look, Part, ProbeAnswer, Work

REPORT_SECONDS: Final = 10.0
"""How often a start that takes long is a line in the log."""

_RECOVERY: Final = re.compile(r": ((?:startup|checkpointer|background writer|io worker)\b.*)")
_STARTUP: Final = "startup"
_BUSY: Final = frozenset({psutil.STATUS_RUNNING, psutil.STATUS_DISK_SLEEP})
_STATUS_LINE: Final = 7

log = Log()


class Observer:
    """Checks a server once a second while an answer is missing, and judges it."""

    def __init__(self, cluster: Path, replaced: int = 0) -> None:
        self._cluster = cluster
        self._replaced = replaced
        self._judgement = Judgement()
        self.doing = ""
        """The activity that the server reported at the last check."""
        self._began = self._reported = time.monotonic()
        self._due = self._began + judge.CHECK_SECONDS

    def stuck(self, postmaster: int, answer: ProbeAnswer) -> bool:
        """Return whether the server must be replaced; check it if a check is due."""
        began = time.monotonic()
        if began < self._due:
            return False
        status, (work, recovery) = status_line(self._cluster), _work(self._cluster, postmaster)
        self.doing = recovery or status
        now = time.monotonic()
        late = now - self._due
        self._due = now + judge.CHECK_SECONDS
        self._judgement = judge.judge(self._judgement, Look(late, answer, status, work))
        self._report(now, answer)
        return judge.is_stuck(self._judgement, answer, self._replaced)

    def _report(self, now: float, answer: ProbeAnswer) -> None:
        if now - self._reported < REPORT_SECONDS:
            return
        self._reported = now
        log.info(
            "postgres_awaited",
            seconds=round(now - self._began, 1),
            answer=answer.name.lower(),
            doing=self.doing,
            still_looks=self._judgement.still,
        )


def status_line(cluster: Path) -> str:
    """Return what the postmaster says of itself: starting, ready, standby, stopping or nothing."""
    try:
        lines = (cluster / "postmaster.pid").read_text().splitlines()
    except (OSError, ValueError):
        return ""
    return lines[_STATUS_LINE].strip() if len(lines) > _STATUS_LINE else ""


def _work(cluster: Path, postmaster: int) -> tuple[dict[int, Work], str]:
    """Return what each process has done, and what the recovery says it is at."""
    found: dict[int, Work] = {}
    recovery = ""
    for member in _processes(cluster, postmaster):
        role = _recovery_role(member)
        if member.pid == postmaster:
            _add(found, member, Part.POSTMASTER)
        else:
            _add(found, member, Part.RECOVERY if role else Part.OTHER)
        if role.startswith(_STARTUP):
            recovery = role
            _add_children(found, member)
    return found, recovery


def _processes(cluster: Path, postmaster: int) -> Iterable[psutil.Process]:
    members = {each.pid: each for each in process.members(cluster)}
    # At first the postmaster does not work in its directory yet.
    with suppress(psutil.Error):
        members.setdefault(postmaster, psutil.Process(postmaster))
    return members.values()


def _add_children(found: dict[int, Work], member: psutil.Process) -> None:
    """Add the commands that a recovery runs: one fetches from an archive."""
    try:
        children = member.children(recursive=True)
    except psutil.Error:
        return
    for child in children:
        _add(found, child, Part.RECOVERY)


def _add(found: dict[int, Work], member: psutil.Process, part: Part) -> None:
    try:
        with member.oneshot():
            status = member.status()
            times = member.cpu_times()
            waits = member.num_ctx_switches().voluntary
        moved = member.io_counters() if hasattr(member, "io_counters") else None
    except psutil.Error:
        return
    found[member.pid] = Work(
        part,
        times.user + times.system,
        moved.read_chars + moved.write_chars if moved else 0,
        waits,
        busy=status in _BUSY,
        suspended=status == psutil.STATUS_STOPPED,
    )


def _recovery_role(member: psutil.Process) -> str:
    """Return what a process of a recovery is at, by its title; "" if it is none."""
    try:
        found = _RECOVERY.search(" ".join(member.cmdline()))
    except psutil.Error:
        return ""
    return found[1].strip() if found else ""
