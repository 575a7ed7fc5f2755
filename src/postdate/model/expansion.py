"""What is to become of a schedule's due occurrences: decided here, written elsewhere."""

from collections import deque
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import islice
from typing import Final
from uuid import UUID

import msgspec

from postdate.model.recurrence import Plan
from postdate.model.remembered import occurrences
from postdate.model.schedule import (
    RAN,
    MisfirePolicy,
    Occurrence,
    Overlap,
    Policies,
    Status,
    jitter,
)

ENTRIES_MOST: Final = 200
"""The most rows that one schedule adds to the book in one step; the next step goes on."""

BUFFER_SECONDS: Final = 1.0
"""How often a buffered occurrence looks whether the one before it has ended."""


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """Where a schedule stands: everything up to `handled` is in the book."""

    schedule_id: UUID
    handled: datetime
    runs: int = 0
    running: bool = False
    buffered_for: datetime | None = None
    paused_at: datetime | None = None
    resumed_at: datetime | None = None


class Entry(msgspec.Struct, frozen=True):
    """A row for the book; one that runs becomes a job or payment, effective at `due_at`."""

    occurrence: Occurrence
    status: Status
    due_at: datetime

    @property
    def runs(self) -> bool:
        """Say whether it becomes a job or payment."""
        return self.status in RAN


class Step(msgspec.Struct, kw_only=True):
    """What one step writes; `next_due` is None when no occurrence will ever come again."""

    handled: datetime
    runs: int
    entries: list[Entry] = msgspec.field(default_factory=list)
    next_due: datetime | None = None
    buffered_for: datetime | None = None
    # Labels for occurrences that the book calls buffered.
    unbuffered: list[tuple[datetime, Status]] = msgspec.field(default_factory=list)
    cancel_running: bool = False


def next_due(plan: Plan, policies: Policies, progress: Progress) -> datetime | None:
    """Give the instant of a schedule's timer: its next occurrence, moved by its jitter."""
    if plan.rule.max_runs is not None and progress.runs >= plan.rule.max_runs:
        return None
    coming = next(occurrences(plan, progress.handled), None)
    if coming is None:
        return None
    return coming.scheduled_for + jitter(progress.schedule_id, policies.jitter_seconds)


def decide(
    plan: Plan, policies: Policies, progress: Progress, now: datetime, most: int = ENTRIES_MOST
) -> Step:
    """Label what is due, up to `most` occurrences, and say when to look again."""
    return _Decision(plan, policies, progress, now).run(most)


class _Decision:
    """One step in the making."""

    def __init__(self, plan: Plan, policies: Policies, progress: Progress, now: datetime) -> None:
        self._plan = plan
        self._policies = policies
        self._progress = progress
        self._now = now
        self._running = progress.running
        self._shift = jitter(progress.schedule_id, policies.jitter_seconds)
        self._coming = _Ahead(occurrences(plan, progress.handled))
        self._again_at: datetime | None = None
        self._step = Step(
            handled=progress.handled, runs=progress.runs, buffered_for=progress.buffered_for
        )

    def run(self, most: int) -> Step:
        """Go through what is due."""
        self._release()
        step = self._step
        while (coming := self._coming.peek()) is not None and self._due(coming) <= self._now:
            same = coming.scheduled_for == step.handled
            if self._finished() or self._again_at or (len(step.entries) >= most and not same):
                break
            self._coming.take()
            self._enter(coming)
            step.handled = coming.scheduled_for
        step.next_due = self._next_due(coming)
        return step

    def _next_due(self, coming: Occurrence | None) -> datetime | None:
        due = None if coming is None or self._finished() else self._due(coming)
        if due is not None and self._again_at is not None:
            due = max(due, self._again_at)
        if self._step.buffered_for is not None:
            look = self._now + timedelta(seconds=BUFFER_SECONDS)
            due = look if due is None else min(due, look)
        return due

    def _due(self, occurrence: Occurrence) -> datetime:
        return occurrence.scheduled_for + self._shift

    def _finished(self) -> bool:
        most = self._plan.rule.max_runs
        return most is not None and self._step.runs >= most

    def _release(self) -> None:
        """Let a buffered occurrence go when the one before it has ended."""
        waiting = self._step.buffered_for
        if waiting is None or self._running:
            return
        self._step.buffered_for = None
        if self._finished():
            self._step.unbuffered.append((waiting, Status.SKIPPED_BY_OVERLAP))
            return
        self._step.unbuffered.append((waiting, Status.FIRED))
        self._step.runs += 1
        self._running = True

    def _enter(self, occurrence: Occurrence) -> None:
        status = self._label(occurrence)
        self._step.entries.append(Entry(occurrence, status, self._due(occurrence)))
        if status in RAN:
            self._step.runs += 1
            self._running = True

    def _label(self, occurrence: Occurrence) -> Status:
        if occurrence.skip is not None:
            return occurrence.skip
        if self._paused(self._due(occurrence)):
            return Status.SKIPPED_BY_PAUSE
        late = self._now - self._due(occurrence)
        misfire = self._policies.misfire
        is_late = late > timedelta(seconds=misfire.late_after_seconds)
        if self._missed(late, is_late=is_late):
            return Status.MISSED
        overlapped = self._overlapped(occurrence)
        if overlapped is not None:
            return overlapped
        if is_late and misfire.policy is MisfirePolicy.FIRE_ALL:
            # One at a time: what an outage held back must not come as a flood.
            self._again_at = self._now + timedelta(seconds=60 / misfire.per_minute)
        return Status.LATE if is_late else Status.FIRED

    def _paused(self, due: datetime) -> bool:
        since, until = self._progress.paused_at, self._progress.resumed_at
        return since is not None and since <= due and (until is None or due < until)

    def _missed(self, late: timedelta, *, is_late: bool) -> bool:
        misfire = self._policies.misfire
        most = misfire.max_lateness_seconds
        if most is not None and late > timedelta(seconds=most):
            return True
        match misfire.policy:
            case MisfirePolicy.SKIP:
                return is_late
            case MisfirePolicy.FIRE_ONCE:
                return is_late and self._superseded()
            case MisfirePolicy.FIRE_ALL:
                return False

    def _superseded(self) -> bool:
        """Say whether another occurrence that can run is due already."""
        for later in self._coming.look(ENTRIES_MOST):
            if self._due(later) > self._now:
                return False
            if later.skip is None and not self._paused(self._due(later)):
                return True
        return False

    def _overlapped(self, occurrence: Occurrence) -> Status | None:
        if not self._running:
            return None
        match self._policies.overlap:
            case Overlap.ALLOW:
                return None
            case Overlap.SKIP:
                return Status.SKIPPED_BY_OVERLAP
            case Overlap.CANCEL_RUNNING:
                self._step.cancel_running = True
                return None
            case Overlap.BUFFER_ONE:
                before = self._step.buffered_for
                if before is not None:
                    self._step.unbuffered.append((before, Status.SKIPPED_BY_OVERLAP))
                self._step.buffered_for = occurrence.scheduled_for
                return Status.BUFFERED


class _Ahead:
    """An iterator that can be looked into without taking anything."""

    def __init__(self, source: Iterator[Occurrence]) -> None:
        self._source = source
        self._seen: deque[Occurrence] = deque()

    def peek(self) -> Occurrence | None:
        return next(self.look(1), None)

    def take(self) -> None:
        self._seen.popleft()

    def look(self, most: int) -> Iterator[Occurrence]:
        """Give the next occurrences, remembering them."""
        yield from islice(tuple(self._seen), most)
        for each in islice(self._source, max(0, most - len(self._seen))):
            self._seen.append(each)
            yield each
