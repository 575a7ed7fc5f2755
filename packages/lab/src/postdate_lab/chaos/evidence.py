"""What a run has left: its history, the database, and what the programs say about themselves.

One piece of evidence is about one tenant, and one more about the run: a tenant is a world of its
own, so that a run of millions is judged in the memory that its largest tenant takes.
"""

from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property
from itertools import chain
from typing import Final
from uuid import UUID

import msgspec

from postdate_lab.chaos.database import Snapshot
from postdate_lab.chaos.history import HistoryLine, answered

GRACE_SECONDS: Final = 15.0
"""For how long after a fault its consequences may show: a lease, a restart, a backoff."""


LEAP_SECONDS: Final = 30.0
"""How far around a leap clocks are compared less strictly: longer than any delay of the crowd."""

CLOCK_SECONDS: Final = 0.02
"""How far the monotonic clock and the database's may drift apart within one delay."""

LEAP_SLACK_SECONDS: Final = 2.0
"""The believed time stands still for at most this long between two words of a node."""

PAYS: Final = ("payment.schedule", "payment.repeat")


class Violation(msgspec.Struct, frozen=True):
    """One thing that should not be: which invariant, of what, and why."""

    invariant: str
    subject: str
    detail: str


class AcceptedItem(msgspec.Struct, frozen=True):
    """An acknowledged job or payment: its key, when it was first asked for, and its delay."""

    key: str
    asked_at: float
    delay: float
    holds: bool = False
    """Whether it must not be repeated when its outcome is unknown."""
    asked_wall: float | None = None
    """When it was asked for by the clock of the machine, which is also the database's."""


class RunFindings(msgspec.Struct, kw_only=True):
    """What is known of a run as a whole: how it calmed down, and what the programs say of it."""

    drained_seconds: float | None = None
    """How long it took until nothing was open; None when something still is."""
    probe_seconds: list[float] = []
    """How late the jobs began that were sent after everything had ended."""
    proof: list[str] = []
    links: int = 0
    """Events in the chains, all of which the proof has verified."""
    anchored: int = 0
    chain: list[str] = []
    """What the proof finds wrong with the chains."""
    leaks: list[str] = []


class Evidence(RunFindings, kw_only=True, dict=True):
    """Everything the checkers look at; they ask nobody else."""

    lines: list[HistoryLine]
    left: Snapshot
    run_lines: list[HistoryLine] = []
    """What belongs to no tenant, when this is about one."""
    of_run: bool = True
    """Whether recovery and chain are told here, too."""
    open_at_first: int = 0
    drain_seconds: float = 0.0
    messages: list[tuple[str, str, str]] = []

    @cached_property
    def faults(self) -> list[tuple[float, float]]:
        """Return when each fault began, and when its consequences must be over."""
        began: dict[int, float] = {}
        found = []
        for line in chain(self.run_lines, self.lines):
            if line.by == "nemesis" and line.type == "invoke":
                began[line.n] = line.at
            elif line.by == "nemesis" and line.type == "ok":
                found.append((began[line.n], line.at + GRACE_SECONDS))
        return found

    def disturbed(self, begin: float, end: float) -> int:
        """Count the faults that may have touched what happened between two instants."""
        return sum(1 for first, last in self.faults if first <= end and last >= begin)

    @cached_property
    def leaps(self) -> list[tuple[float, float]]:
        """Return when the database's clock was wrong, with time around for what began before."""
        began: dict[int, float] = {}
        found = []
        for line in chain(self.run_lines, self.lines):
            if (line.by, line.op) == ("nemesis", "clock"):
                if line.type == "invoke":
                    began[line.n] = line.at
                else:
                    found.append((began[line.n] - LEAP_SECONDS, line.at + LEAP_SECONDS))
        return found

    def slack(self, at: float) -> float:
        """Return how much shorter a delay may be that was asked for at an instant."""
        leapt = any(first <= at <= last for first, last in self.leaps)
        return LEAP_SLACK_SECONDS if leapt else CLOCK_SECONDS

    @cached_property
    def arrivals(self) -> dict[str, list[HistoryLine]]:
        """Return what arrived at the receivers of jobs, by message id."""
        found: dict[str, list[HistoryLine]] = defaultdict(list)
        for line in self.lines:
            if line.op == "arrival" and line.data["behaviour"] != "events":
                found[line.data["id"]].append(line)
        return found

    @cached_property
    def accepted_jobs(self) -> dict[str, AcceptedItem]:
        """Return the jobs that were acknowledged."""
        found = {
            done.data["answer"]["job_id"]: AcceptedItem(
                asked.data.get("key", ""), asked.at, asked.data["delay"],
                asked.data["on_unknown"] == "hold",
            )
            for asked, done in answered(self.lines, "job.create")
        }  # fmt: skip
        return found | dict(_batched(self.lines, "job.batch"))

    @cached_property
    def accepted_payments(self) -> dict[str, list[AcceptedItem]]:
        """Return the payments that were acknowledged, once for each answer.

        The first call of a key may have been lost with its answer, and a repetition
        acknowledged: the first counts.
        """
        first: dict[str, float] = {}
        for line in self.lines:
            if line.type == "invoke" and line.op in PAYS:
                first.setdefault(line.data["key"], line.at)
        found: dict[str, list[AcceptedItem]] = defaultdict(list)
        for op in PAYS:
            for asked, done in answered(self.lines, op):
                key = asked.data["key"]
                one = AcceptedItem(key, first[key], asked.data["delay"])
                found[done.data["answer"]["payment_id"]].append(one)
        for payment_id, one in _batched(self.lines, "payment.batch"):
            found[payment_id].append(one)
        return found

    @cached_property
    def payment_keys(self) -> set[str]:
        """Return every key under which a payment was asked for, whatever came back."""
        found = {
            line.data["key"] for line in self.lines if line.type == "invoke" and line.op in PAYS
        }
        for line in self.lines:
            if line.type == "invoke" and line.op == "payment.batch":
                found |= {f"{line.data['keys']}{n}" for n in range(len(line.data["delays"]))}
        return found

    @cached_property
    def statuses(self) -> dict[UUID, str]:
        """Return the final status of each job and payment that has ended."""
        return {row.subject: row.status for row in self.left.outcomes}

    @cached_property
    def changed(self) -> set[str]:
        """Return what was rescheduled."""
        moved = {"payment.reschedule", "job.reschedule", "job.run_now"}
        return {
            line.data["subject"]
            for line in self.lines
            if line.op in moved and line.type == "invoke"
        }


def _batched(lines: list[HistoryLine], op: str) -> Iterator[tuple[str, AcceptedItem]]:
    """Return what was acknowledged in batches, item by item; null stands for a refused one."""
    for asked, done in answered(lines, op):
        about = asked.data
        held = set(about.get("held", ()))
        for n, subject in enumerate(done.data["answer"]["ids"]):
            if subject is not None:
                yield (
                    subject,
                    AcceptedItem(
                        f"{about['keys']}{n}",
                        asked.at,
                        about["delays"][n],
                        n in held,
                        about["wall"],
                    ),
                )
