"""Distinguish a server that recovers slowly from one that is stuck."""

import time
from pathlib import Path
from typing import Final, NamedTuple

import psutil

from postdate.store.embedded import process

_LOOK_SECONDS: Final = 1.0
_GATHER_SECONDS: Final = 2.0
_CPU_STEP: Final = 0.05
_WAITS_STEP: Final = 10
"""So many waits between two looks are work: a recovery first has every file written to the disk,
one after the other. Whoever has nothing to do wakes less often."""


class StartWork(NamedTuple):
    """What a process has done so far."""

    cpu_seconds: float
    bytes_moved: int
    waits: int = 0


class StartProgress:
    """Watch the processes that do the recovery: it reads, writes, computes, or waits many times.

    One wait that does not end is no work. Only those seen in the first seconds count: a server
    that crashes and begins again, over and over, makes new ones each time and no progress.
    """

    def __init__(self, cluster: Path) -> None:
        self._cluster = cluster
        self._work: dict[int, StartWork] = {}
        self._began = self._moved = self._looked = time.monotonic()

    def idle_seconds(self) -> float:
        """Return for how long nothing has moved."""
        now = time.monotonic()
        if now - self._looked >= _LOOK_SECONDS:
            self._looked = now
            if self._look(gather=now - self._began < _GATHER_SECONDS):
                self._moved = now
        return now - self._moved

    def _look(self, *, gather: bool) -> bool:
        master = process.postmaster(self._cluster)
        moved = False
        for member in process.members(self._cluster):
            # The postmaster works for every connection it turns away, ours among them.
            if master is not None and member.pid == master.pid:
                continue
            moved |= self._report(member, gather=gather)
        return moved

    def _report(self, member: psutil.Process, *, gather: bool) -> bool:
        before = self._work.get(member.pid)
        if before is None and not gather:
            return False
        work = _work_of(member)
        if work is None:
            return False
        moved = before is not None and (
            work.cpu_seconds - before.cpu_seconds >= _CPU_STEP
            or work.bytes_moved > before.bytes_moved
            or work.waits - before.waits >= _WAITS_STEP
        )
        if moved or before is None:
            before = work
        self._work[member.pid] = before._replace(waits=work.waits)
        return moved


def _work_of(member: psutil.Process) -> StartWork | None:
    try:
        times = member.cpu_times()
        waits = member.num_ctx_switches().voluntary
        moved = member.io_counters() if hasattr(member, "io_counters") else None
    except psutil.Error:
        return None
    total = moved.read_chars + moved.write_chars if moved else 0
    return StartWork(times.user + times.system, total, waits)
