"""Decide the results of a schedule's due occurrences; other code writes them."""

from collections import deque
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Final
from uuid import UUID

import msgspec

from postdate.recurrence.plan import first_that_runs
from postdate.recurrence.remembered import occurrences
from postdate.recurrence.rule import RAN, Occurrence, Status
from postdate.schedule.spec.schedule import MisfirePolicy, Overlap, jitter
from postdate.schedule.spec.timeline import Segment, upcoming

MAX_ENTRIES: Final = 200
"""The most rows that one schedule adds to the book in one step; the next step goes on."""

BUFFER_SECONDS: Final = 1.0
"""How often a buffered occurrence checks whether its predecessor has ended."""

_TICK: Final = timedelta(microseconds=1)

MAX_NOTES: Final = 12
"""The most words about one occurrence in the book."""


class ExpansionProgress(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of a schedule: everything up to `handled` is in the book."""

    schedule_id: UUID
    handled: datetime
    runs: int = 0
    running: bool = False
    buffered_for: datetime | None = None
    paused_at: datetime | None = None
    resumed_at: datetime | None = None


class Entry(msgspec.Struct, frozen=True):
    """A row for the book; one that runs becomes a job or payment, effective at `due_at`.

    `segment` has the version that decided about it.
    """

    occurrence: Occurrence
    status: Status
    due_at: datetime
    segment: Segment

    @property
    def runs(self) -> bool:
        """Return whether it becomes a job or payment."""
        return self.status in RAN


class ExpansionStep(msgspec.Struct, kw_only=True):
    """What one step writes; `next_due` is None when no occurrence will ever come again."""

    handled: datetime
    runs: int
    entries: list[Entry] = msgspec.field(default_factory=list)
    next_due: datetime | None = None
    buffered_for: datetime | None = None
    unbuffered: list["Unbuffered"] = msgspec.field(default_factory=list)
    cancel_running: bool = False


class Unbuffered(msgspec.Struct, frozen=True):
    """Another label for an occurrence that the book calls buffered."""

    scheduled_for: datetime
    status: Status
    segment: Segment


class Coming(msgspec.Struct, frozen=True):
    """An occurrence to come, and the instant at which it is due, its jitter included."""

    segment: Segment
    occurrence: Occurrence
    due_at: datetime


def to_come(segments: Sequence[Segment], progress: ExpansionProgress) -> Iterator[Coming]:
    """Return the future occurrences of the rule, up to its `max_runs`."""
    runs = progress.runs
    for segment, coming in upcoming(segments, progress.handled):
        max_count = segment.plan.rule.max_runs
        if max_count is None or runs < max_count:
            runs += coming.skip is None
            seconds = segment.definition.policies.jitter_seconds
            due_at = coming.scheduled_for + jitter(progress.schedule_id, seconds)
            yield Coming(segment, coming, due_at)
        elif segment.until is None:
            return


def next_up(segments: Sequence[Segment], progress: ExpansionProgress) -> Coming | None:
    """Return the next occurrence, whether it will run or not."""
    return next(to_come(segments, progress), None)


def next_due(segments: Sequence[Segment], progress: ExpansionProgress) -> datetime | None:
    """Return the instant of a schedule's timer."""
    coming = next_up(segments, progress)
    return None if coming is None else coming.due_at


def notes_of(occurrence: Occurrence) -> str | None:
    """Write what the policies did, and what was merged, as the words of a row of the book."""
    words = [*occurrence.notes, *(f"absorbed_{at.isoformat()}" for at in occurrence.merged)]
    return " ".join(words[:MAX_NOTES]) or None


def decide(
    segments: Sequence[Segment],
    progress: ExpansionProgress,
    now: datetime,
    max_count: int = MAX_ENTRIES,
) -> ExpansionStep:
    """Label what is due, up to `most` occurrences, and return when to look again."""
    return _Decision(segments, progress, now).run(max_count)


class _Decision:
    """Builds one step."""

    def __init__(
        self, segments: Sequence[Segment], progress: ExpansionProgress, now: datetime
    ) -> None:
        self._segments = segments
        self._progress = progress
        self._now = now
        self._running = progress.running
        self._again_at: datetime | None = None
        self._step = ExpansionStep(
            handled=progress.handled, runs=progress.runs, buffered_for=progress.buffered_for
        )
        self._begin(segments[0])

    def _begin(self, segment: Segment) -> None:
        self._segment = segment
        self._policies = segment.definition.policies
        self._shift = jitter(self._progress.schedule_id, self._policies.jitter_seconds)
        self._coming = _Ahead(segment.occurrences(self._step.handled, occurrences))

    def run(self, max_count: int) -> ExpansionStep:
        """Go through what is due, version by version."""
        self._release()
        coming = None
        for segment in self._segments:
            if segment.until is not None and segment.until <= self._step.handled:
                continue
            if segment is not self._segment:
                self._begin(segment)
            coming = self._go_through(max_count)
            if coming is not None:
                break
            if segment.until is not None:
                self._step.handled = segment.until
        self._step.next_due = self._next_due(coming)
        return self._step

    def _go_through(self, max_count: int) -> Occurrence | None:
        """Enter what is due of this segment; return the occurrence that has to wait, if one has."""
        step = self._step
        while not self._finished() and (coming := self._coming.peek()) is not None:
            same = coming.scheduled_for == step.handled
            full = len(step.entries) >= max_count and not same
            if self._due(coming) > self._now or self._again_at or full:
                return coming
            self._coming.take()
            self._enter(coming)
            step.handled = coming.scheduled_for
        return None

    def _next_due(self, coming: Occurrence | None) -> datetime | None:
        due = None if coming is None else self._due(coming)
        if due is not None and self._again_at is not None:
            due = max(due, self._again_at)
        if self._step.buffered_for is not None:
            look = max(self._now + timedelta(seconds=BUFFER_SECONDS), self._step.buffered_for)
            due = look if due is None else min(due, look)
        return due

    def _due(self, occurrence: Occurrence) -> datetime:
        return occurrence.scheduled_for + self._shift

    def _finished(self) -> bool:
        max_count = self._segment.plan.rule.max_runs
        return max_count is not None and self._step.runs >= max_count

    def _release(self) -> None:
        """Start a buffered occurrence when the one before it has ended.

        It was due once: by a clock that was put back it is to come again, and waits for that.
        """
        waiting = self._step.buffered_for
        if waiting is None or self._running or waiting > self._now:
            return
        self._step.buffered_for = None
        if self._finished():
            self._unbuffer(waiting, Status.SKIPPED_BY_OVERLAP)
            return
        self._unbuffer(waiting, Status.FIRED)
        self._step.runs += 1
        self._running = True

    def _unbuffer(self, waiting: datetime, status: Status) -> None:
        own = (s for s in self._segments if s.until is None or waiting <= s.until)
        self._step.unbuffered.append(Unbuffered(waiting, status, next(own)))

    def _enter(self, occurrence: Occurrence) -> None:
        status = self._label(occurrence)
        entry = Entry(occurrence, status, self._due(occurrence), self._segment)
        self._step.entries.append(entry)
        if status in RAN:
            self._step.runs += 1
            self._running = True

    def _label(self, occurrence: Occurrence) -> Status:
        if occurrence.skip is not None:
            return occurrence.skip
        if self._paused(self._due(occurrence)):
            return Status.SKIPPED_BY_PAUSE
        if self._missed(occurrence):
            return Status.MISSED
        overlapped = self._overlapped(occurrence)
        if overlapped is not None:
            return overlapped
        is_late, misfire = self._late(occurrence), self._policies.misfire
        if is_late and misfire.policy is MisfirePolicy.FIRE_ALL:
            # One at a time: what an outage held back must not come as a flood.
            self._again_at = self._now + timedelta(seconds=60 / misfire.per_minute)
        return Status.LATE if is_late else Status.FIRED

    def _paused(self, due: datetime) -> bool:
        since, until = self._progress.paused_at, self._progress.resumed_at
        return since is not None and since <= due and (until is None or due < until)

    def _late(self, occurrence: Occurrence) -> bool:
        after = timedelta(seconds=self._policies.misfire.late_after_seconds)
        return self._now - self._due(occurrence) > after

    def _missed(self, occurrence: Occurrence) -> bool:
        misfire = self._policies.misfire
        max_count = misfire.max_lateness_seconds
        if max_count is not None and self._now - self._due(occurrence) > timedelta(
            seconds=max_count
        ):
            return True
        match misfire.policy:
            case MisfirePolicy.SKIP:
                return self._late(occurrence)
            case MisfirePolicy.FIRE_ONCE:
                return self._late(occurrence) and self._superseded()
            case MisfirePolicy.FIRE_ALL:
                return False

    def _superseded(self) -> bool:
        """Return whether a later one that can run is late as well: then that one runs for both."""
        for later in self._coming.peek_many(MAX_ENTRIES):
            if not self._late(later):
                return False
            if later.skip is None and not self._paused(self._due(later)):
                return True
        return self._superseded_beyond()

    def _superseded_beyond(self) -> bool:
        """Leap over what is left out: a long closure or pause hides a later one that is late."""
        last = self._coming.last()
        if last is None or self._segment.changes:
            return False
        later = first_that_runs(self._segment.plan, last.scheduled_for)
        resumed = self._progress.resumed_at
        if later is not None and resumed is not None and self._paused(self._due(later)):
            later = first_that_runs(self._segment.plan, resumed - self._shift - _TICK)
        if later is None or self._paused(self._due(later)):
            return False
        until = self._segment.until
        return self._late(later) and (until is None or later.scheduled_for <= until)

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
                    self._unbuffer(before, Status.SKIPPED_BY_OVERLAP)
                self._step.buffered_for = occurrence.scheduled_for
                return Status.BUFFERED


class _Ahead:
    """An iterator whose next item can be read without taking it."""

    def __init__(self, source: Iterator[Occurrence]) -> None:
        self._source = source
        self._seen: deque[Occurrence] = deque()

    def peek(self) -> Occurrence | None:
        return next(self.peek_many(1), None)

    def last(self) -> Occurrence | None:
        """Return the item that was read and not taken, if any."""
        return self._seen[-1] if self._seen else None

    def take(self) -> None:
        self._seen.popleft()

    def peek_many(self, max_count: int) -> Iterator[Occurrence]:
        """Return the next occurrences, remembering them."""
        yield from islice(tuple(self._seen), max_count)
        for each in islice(self._source, max(0, max_count - len(self._seen))):
            self._seen.append(each)
            yield each
