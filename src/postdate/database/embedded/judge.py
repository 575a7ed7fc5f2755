"""Decide whether a server is stuck, from checks of its answers and its activity."""

from collections.abc import Collection
from enum import Enum, auto
from typing import Final, NamedTuple

CHECK_SECONDS: Final = 1.0
"""Time between two checks."""

LATE_SECONDS: Final = 1.0
"""A check that was this much later or slower than planned says that this process was starved or
suspended: it proves nothing about the server."""

STILL_CHECKS: Final = 10
"""A recovery without progress in this many checks in a row is stuck."""

SILENT_CHECKS: Final = 30
"""A server that says nothing at all is stuck after this many checks."""

MAX_DOUBLINGS: Final = 6
"""Each server that was taken for stuck makes the judge twice as patient with the next: should it
ever be wrong, it does not end one recovery after the other."""

CPU_STEP_SECONDS: Final = 0.05
WAITS_STEP: Final = 10
"""This many waits between two checks are work: a recovery first has every file written to the disk,
one after the other. A process that has nothing to do wakes less often."""


class ProbeAnswer(Enum):
    """What a server says to a login."""

    READY = auto()
    STARTING = auto()
    REFUSING = auto()
    CLOSED = auto()
    NONE_YET = auto()


class Part(Enum):
    """What a process of the server is for."""

    POSTMASTER = auto()
    RECOVERY = auto()
    OTHER = auto()


class Work(NamedTuple):
    """How much a process has done, and whether it is working now."""

    part: Part
    cpu_seconds: float = 0.0
    bytes_moved: int = 0
    waits: int = 0
    busy: bool = False
    """It runs, waits for a processor, or waits for the disk: it is not up to this process."""
    suspended: bool = False


class Look(NamedTuple):
    """Everything seen at one time."""

    late_seconds: float
    answer: ProbeAnswer
    status: str
    """The status line of `postmaster.pid`."""
    work: dict[int, Work]


class Judgement(NamedTuple):
    """The verdict of the checks so far."""

    still: int = 0
    """Number of checks in time, in a row, without progress."""
    status: str = ""
    work: dict[int, Work] | None = None
    """What each process had done when it was last seen to move."""


def is_stuck(judgement: Judgement, answer: ProbeAnswer, replaced: int) -> bool:
    """Return whether the server must be replaced, after others that were."""
    checks = STILL_CHECKS if answer is ProbeAnswer.STARTING else SILENT_CHECKS
    return judgement.still >= checks * 2 ** min(replaced, MAX_DOUBLINGS)


def judge(before: Judgement, look: Look) -> Judgement:
    """Add a check: progress always counts, its absence only if the check was in time."""
    moved = _moved(before.work or {}, look.work)
    seen = {
        pid: work if pid in moved else _kept(before.work, pid, work)
        for pid, work in look.work.items()
    }
    if before.work is None or look.status != before.status or _lives(look, moved):
        return Judgement(0, look.status, seen)
    late = look.late_seconds > LATE_SECONDS
    return Judgement(before.still + (0 if late else 1), look.status, seen)


def _lives(look: Look, moved: Collection[int]) -> bool:
    """Return whether anything says that the server gets on with what we wait for."""
    if look.answer in {ProbeAnswer.READY, ProbeAnswer.REFUSING}:
        return True
    if any(work.suspended and work.part is Part.POSTMASTER for work in look.work.values()):
        return False
    parts = {look.work[pid].part for pid in moved}
    if all(work.part is Part.POSTMASTER for work in look.work.values()):
        # Before it has any children, the postmaster itself prepares the start.
        return bool(parts)
    if look.answer is ProbeAnswer.STARTING:
        # The others work for every login that is turned away, ours among them.
        return Part.RECOVERY in parts
    busy = any(work.busy for work in look.work.values())
    return busy or not parts <= {Part.POSTMASTER}


def _moved(before: dict[int, Work], now: dict[int, Work]) -> set[int]:
    return {pid for pid, work in now.items() if pid in before and _moves(before[pid], work)}


def _moves(before: Work, now: Work) -> bool:
    return (
        now.busy
        or now.cpu_seconds - before.cpu_seconds >= CPU_STEP_SECONDS
        or now.bytes_moved > before.bytes_moved
        or now.waits - before.waits >= WAITS_STEP
    )


def _kept(before: dict[int, Work] | None, pid: int, now: Work) -> Work:
    """Keep what a process had done, so that small steps add up; only many waits at once count."""
    known = (before or {}).get(pid)
    return now if known is None else known._replace(waits=now.waits)
