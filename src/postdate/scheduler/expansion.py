"""Expand a set of schedules whose timers are locked: decide each, write all as sets."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from postdate.core.log import Log
from postdate.recurrence.rule import Status
from postdate.schedule.spec.expansion import (
    Entry,
    ExpansionProgress,
    ExpansionStep,
    Unbuffered,
    decide,
    notes_of,
)
from postdate.schedule.spec.firing import Fired, Firing
from postdate.schedule.spec.schedule import Overlap, identify, occurrence_id
from postdate.schedule.spec.timeline import Segment
from postdate.schedule.store.occurrence import NewOccurrence, OccurrenceKey, Relabel
from postdate.schedule.store.schedule import Advance, ScheduleRow
from postdate.schedule.store.timeline import LoadedSegments
from postdate.words.error import Refusal

log = Log()

ERROR_CHARACTERS: Final = 500
"""How much of an error is kept with the schedule that it set aside."""


@dataclass(slots=True)
class ScheduleExpansion:
    """One schedule of a batch: its step, and the results of its occurrences."""

    row: ScheduleRow
    step: ExpansionStep
    entries: list[Entry] = field(default_factory=list)
    made: list[UUID] = field(default_factory=list)
    refused: int = 0
    merged: int = 0
    known_runs: int = 0


@dataclass(slots=True)
class ExpansionBatch:
    """What one transaction writes."""

    now: datetime
    expansions: list[ScheduleExpansion] = field(default_factory=list)
    aside: list[tuple[ScheduleRow, str]] = field(default_factory=list)

    def decide(
        self, rows: Sequence[ScheduleRow], held: LoadedSegments, running: Collection[UUID]
    ) -> "ExpansionBatch":
        """Decide each schedule; an error affects only its own schedule.

        Runs in a thread of its own: a rule may take a while.
        """
        for row in rows:
            segments = held[row.schedule_id]
            if isinstance(segments, Exception):
                self._set_aside(row, segments)
                continue
            try:
                step = decide(segments, progress_of(row, running), self.now)
            except Exception as error:  # noqa: BLE001 - shown with the schedule
                self._set_aside(row, error)
            else:
                self.expansions.append(ScheduleExpansion(row, step, list(step.entries)))
        return self

    def _set_aside(self, row: ScheduleRow, error: Exception) -> None:
        log.error("schedule.set_aside", schedule_id=str(row.schedule_id), exc_info=error)
        self.aside.append((row, error_text(error)))

    def keys(self) -> list[OccurrenceKey]:
        """Return the keys of the new rows."""
        return [
            OccurrenceKey(*each.row.key, identify(each.row.schedule_id, entry.occurrence))
            for each in self.expansions
            for entry in each.entries
        ]

    def drop(self, known: Collection[tuple[UUID, UUID]]) -> None:
        """Drop occurrences that the book already has."""
        for each in self.expansions:
            schedule_id, entries = each.row.schedule_id, each.entries
            each.entries = [
                entry
                for entry in entries
                if (schedule_id, identify(schedule_id, entry.occurrence)) not in known
            ]
            each.known_runs = sum(e.runs for e in entries) - sum(e.runs for e in each.entries)

    def firings(self) -> list[Firing]:
        """Return the occurrences to fire: released ones first, then the new ones."""
        found: list[Firing] = []
        for each in self.expansions:
            released = (one for one in each.step.unbuffered if _ran(one.status))
            found += [_firing(each.row, r.segment, r.scheduled_for, self.now) for r in released]
            runs = (entry for entry in each.entries if entry.runs)
            found += [
                _firing(each.row, e.segment, e.occurrence.scheduled_for, e.due_at) for e in runs
            ]
        return found

    def rows(self, results: Sequence[Fired | Refusal]) -> tuple[list[NewOccurrence], list[Relabel]]:
        """Return the rows of the book; `results` are those of the firings, in order."""
        coming = iter(results)
        new: list[NewOccurrence] = []
        changed: list[Relabel] = []
        for each in self.expansions:
            for one in each.step.unbuffered:
                labelled = _label_of(each, one, next(coming) if _ran(one.status) else None)
                label, kind, subject, code = labelled
                where = occurrence_id(each.row.schedule_id, one.scheduled_for)
                changed.append(Relabel(*each.row.key, where, label, kind, subject, code))
            for entry in each.entries:
                labelled = _label_of(each, entry, next(coming) if entry.runs else None)
                new.append(_row(each, entry, labelled))
        return new, changed

    def advances(self) -> list[Advance]:
        """Return the new state of each schedule."""
        return [
            Advance(
                *each.row.key,
                runs=each.step.runs - each.refused - each.merged - each.known_runs,
                handled=each.step.handled,
                buffered_for=each.step.buffered_for,
                last_id=each.made[-1] if each.made else None,
                missed_at=self.now if _missed(each) else None,
                ended_at=self.now if each.step.next_due is None else None,
            )
            for each in self.expansions
        ]

    def timers(self) -> list[tuple[int, UUID, datetime | None]]:
        """Return when each schedule is due next."""
        return [(e.row.bucket, e.row.schedule_id, e.step.next_due) for e in self.expansions]

    def cancelled(self) -> list[tuple[int, UUID]]:
        """Return the jobs that newer ones replace: only the newest stays open.

        Call it after the rows are built. It includes jobs of this batch, so that the outcome is the
        same as with one batch per occurrence.
        """
        found: list[tuple[int, UUID]] = []
        for each in self.expansions:
            if each.step.cancel_running and each.made:
                before = [] if each.row.last_id is None else [each.row.last_id]
                found += [(each.row.tenant_id, one) for one in (*before, *each.made[:-1])]
        return found

    def notices(self) -> list[tuple[ScheduleRow, str, dict[str, Any]]]:
        """Return the events to record besides the jobs and payments themselves."""
        found: list[tuple[ScheduleRow, str, dict[str, Any]]] = []
        for row, error in self.aside:
            found.append((row, "schedule.set_aside", {"error": error}))
        for each in self.expansions:
            if missed := _missed(each):
                span = {"count": len(missed), "first": missed[0], "last": missed[-1]}
                found.append((each.row, "schedule.missed", span))
            if each.refused:
                found.append((each.row, "schedule.refused", {"count": each.refused}))
            if each.step.next_due is None:
                found.append((each.row, "schedule.ended", {"runs": each.step.runs}))
        return found


def error_text(error: Exception) -> str:
    """Format an error for the person who repairs the schedule."""
    return f"{type(error).__name__}: {error}".replace("\0", "")[:ERROR_CHARACTERS]


def watched(row: ScheduleRow, segments: Sequence[Segment] | Exception) -> bool:
    """Return whether a schedule's overlap policy depends on its open jobs and payments."""
    if row.last_id is None or isinstance(segments, Exception):
        return False
    return any(s.definition.policies.overlap is not Overlap.ALLOW for s in segments)


def progress_of(row: ScheduleRow, running: Collection[UUID] = ()) -> ExpansionProgress:
    """Return the progress of a stored schedule."""
    return ExpansionProgress(
        schedule_id=row.schedule_id,
        handled=row.handled,
        runs=row.runs,
        running=row.last_id is not None and row.last_id in running,
        buffered_for=row.buffered_for,
        paused_at=row.paused_at,
        resumed_at=row.resumed_at,
    )


def _ran(status: Status) -> bool:
    return status in {Status.FIRED, Status.LATE}


def _firing(
    row: ScheduleRow, segment: Segment, scheduled_for: datetime, due_at: datetime
) -> Firing:
    return Firing(
        row.tenant_id,
        row.schedule_id,
        scheduled_for,
        due_at,
        segment.version,
        segment.definition.template,
        segment.definition.policies,
        asked_by=row.traceparent,
    )


Label = tuple[str, str | None, UUID | None, str | None]
"""Label, kind and id of what was made, and the code of a refusal."""


def _label_of(
    each: ScheduleExpansion, one: Entry | Unbuffered, result: Fired | Refusal | None
) -> Label:
    match result:
        case None:
            return one.status.value, None, None, None
        case Fired(merged=True):
            each.merged += 1
            return Status.SKIPPED_BY_UNIQUE.value, None, None, None
        case Fired(subject=subject):
            each.made.append(subject)
            return one.status.value, one.segment.definition.template.kind, subject, None
        case Refusal(code=code):
            each.refused += 1
            return Status.REFUSED.value, None, None, code.value


def _row(each: ScheduleExpansion, entry: Entry, labelled: Label) -> NewOccurrence:
    status, kind, subject, code = labelled
    row, occurrence = each.row, entry.occurrence
    return NewOccurrence(
        *row.key,
        occurrence_id=identify(row.schedule_id, occurrence),
        scheduled_for=occurrence.scheduled_for,
        nominal_local=occurrence.nominal_local,
        due_at=entry.due_at,
        status=status,
        cause="rule",
        version=entry.segment.version,
        kind=kind,
        subject=subject,
        code=code,
        notes=notes_of(occurrence),
    )


def _missed(each: ScheduleExpansion) -> list[datetime]:
    return [e.occurrence.scheduled_for for e in each.entries if e.status is Status.MISSED]
