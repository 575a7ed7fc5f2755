"""What a run has left: its history, the database, and what the programs say about themselves."""

from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property
from typing import Any, Final
from uuid import UUID

import msgspec

from postdate.chaos.database import Snapshot
from postdate.chaos.history import Line, answered

GRACE_SECONDS: Final = 15.0
"""For how long after a fault its consequences may show: a lease, a restart, a backoff."""


class Violation(msgspec.Struct, frozen=True):
    """One thing that should not be: which invariant, of what, and why."""

    invariant: str
    subject: str
    detail: str


class Evidence(msgspec.Struct, kw_only=True, dict=True):
    """Everything the checkers look at; they ask nobody else."""

    lines: list[Line]
    left: Snapshot
    drain_seconds: float
    drained_seconds: float | None = None
    """How long it took until nothing was open; None when something still is."""
    probe_seconds: list[float] = []
    """How late the jobs began that were sent after everything had ended."""
    proof: list[str] = []
    chain: dict[str, Any] = {}
    messages: list[tuple[str, str, str]] = []
    leaks: list[str] = []

    @cached_property
    def faults(self) -> list[tuple[float, float]]:
        """Return when each fault began, and when its consequences must be over."""
        began: dict[int, float] = {}
        found = []
        for line in self.lines:
            if line.by == "nemesis" and line.type == "invoke":
                began[line.n] = line.at
            elif line.by == "nemesis" and line.type == "ok":
                found.append((began[line.n], line.at + GRACE_SECONDS))
        return found

    def disturbed(self, begin: float, end: float) -> int:
        """Count the faults that may have touched what happened between two instants."""
        return sum(1 for first, last in self.faults if first <= end and last >= begin)

    @cached_property
    def arrivals(self) -> dict[str, list[Line]]:
        """Return what arrived at the receivers of jobs, by message id."""
        found: dict[str, list[Line]] = defaultdict(list)
        for line in self.lines:
            if line.op == "arrival" and line.data["behaviour"] != "events":
                found[line.data["id"]].append(line)
        return found

    @cached_property
    def accepted_jobs(self) -> dict[str, tuple[Line, Line]]:
        """Return the jobs that were acknowledged one by one, with call and answer."""
        return {
            done.data["answer"]["job_id"]: (asked, done)
            for asked, done in answered(self.lines, "job.create")
        }

    @cached_property
    def accepted_payments(self) -> dict[str, list[tuple[Line, Line]]]:
        """Return the payments that were acknowledged, with every call and its answer."""
        found: dict[str, list[tuple[Line, Line]]] = defaultdict(list)
        for op in ("payment.schedule", "payment.repeat"):
            for asked, done in answered(self.lines, op):
                found[done.data["answer"]["payment_id"]].append((asked, done))
        return found

    def batched_jobs(self) -> Iterator[str]:
        """Return the jobs that were acknowledged in batches."""
        for _, done in answered(self.lines, "job.batch"):
            for outcome in done.data["answer"]["outcomes"]:
                if "job" in outcome:
                    yield outcome["job"]["job_id"]

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
