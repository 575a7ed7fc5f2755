"""Expand a set of schedules whose timers are locked: decide each, write all as sets."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

import msgspec
import structlog

from postdate.model.calendar import Calendar
from postdate.model.errors import Refusal
from postdate.model.expansion import Entry, Progress, Step, decide
from postdate.model.firing import Fired, Firing
from postdate.model.schedule import Definition, Status, identify, occurrence_id
from postdate.model.schedule_rules import plan_of
from postdate.store.occurrence import NewOccurrence, OccurrenceKey, Relabel
from postdate.store.schedule import Advance, ScheduleRow

log = structlog.get_logger()

ASIDE: Final = timedelta(seconds=60)
"""How long a schedule that cannot be expanded is put aside, so that it does not hold up others."""

NOTES_MOST: Final = 12

Calendars = Mapping[tuple[int, str], Calendar]
Due = tuple[ScheduleRow, Definition]


@dataclass(slots=True)
class Expansion:
    """One schedule of a batch: its step, and what became of its occurrences."""

    row: ScheduleRow
    definition: Definition
    step: Step
    entries: list[Entry] = field(default_factory=list)
    last_id: UUID | None = None
    refused: int = 0


@dataclass(slots=True)
class Batch:
    """What one transaction writes."""

    now: datetime
    expansions: list[Expansion] = field(default_factory=list)
    aside: list[ScheduleRow] = field(default_factory=list)

    def add(self, due: Due, calendars: Calendars, running: Collection[UUID]) -> None:
        """Decide about one schedule; one that cannot be decided is put aside."""
        row, definition = due
        try:
            plan = plan_of(definition, find_calendar(due, calendars))
            step = decide(plan, definition.policies, progress_of(row, running), self.now)
        except Exception:
            log.exception("schedule.broke", schedule_id=str(row.schedule_id))
            self.aside.append(row)
            return
        self.expansions.append(Expansion(row, definition, step, list(step.entries)))

    def keys(self) -> list[OccurrenceKey]:
        """Give where the new rows will lie."""
        return [
            OccurrenceKey(*each.row.key, identify(each.row.schedule_id, entry.occurrence))
            for each in self.expansions
            for entry in each.entries
        ]

    def drop(self, known: Collection[tuple[UUID, UUID]]) -> None:
        """Leave out what the book has already."""
        for each in self.expansions:
            schedule_id = each.row.schedule_id
            each.entries = [
                entry
                for entry in each.entries
                if (schedule_id, identify(schedule_id, entry.occurrence)) not in known
            ]

    def firings(self) -> list[Firing]:
        """Give what is to become a job or payment: released ones first, then the new ones."""
        found = []
        for each in self.expansions:
            at = [(when, self.now) for when, status in each.step.unbuffered if _ran(status)]
            at += [(e.occurrence.scheduled_for, e.due_at) for e in each.entries if e.runs]
            found += [self._firing(each, when, due) for when, due in at]
        return found

    def _firing(self, each: Expansion, scheduled_for: datetime, due_at: datetime) -> Firing:
        row, definition = each.row, each.definition
        return Firing(
            row.tenant_id,
            row.schedule_id,
            scheduled_for,
            due_at,
            definition.template,
            definition.policies,
            asked_by=row.traceparent,
        )

    def rows(self, results: Sequence[Fired | Refusal]) -> tuple[list[NewOccurrence], list[Relabel]]:
        """Write the book: `results` are those of the firings, in their order."""
        coming = iter(results)
        new: list[NewOccurrence] = []
        changed: list[Relabel] = []
        for each in self.expansions:
            for when, status in each.step.unbuffered:
                told = _told(each, status, next(coming) if _ran(status) else None)
                label, kind, subject, code = told
                where = occurrence_id(each.row.schedule_id, when)
                changed.append(Relabel(*each.row.key, where, label, kind, subject, code))
            for entry in each.entries:
                told = _told(each, entry.status, next(coming) if entry.runs else None)
                new.append(_row(each, entry, told))
        return new, changed

    def advances(self) -> list[Advance]:
        """Say where each schedule stands now."""
        return [
            Advance(
                *each.row.key,
                runs=each.step.runs - each.refused,
                handled=each.step.handled,
                buffered_for=each.step.buffered_for,
                last_id=each.last_id,
                missed_at=self.now if _missed(each) else None,
                ended_at=self.now if each.step.next_due is None else None,
            )
            for each in self.expansions
        ]

    def timers(self) -> list[tuple[int, UUID, datetime | None]]:
        """Say when each schedule is to be looked at again."""
        moved = [(e.row.bucket, e.row.schedule_id, e.step.next_due) for e in self.expansions]
        return moved + [(r.bucket, r.schedule_id, self.now + ASIDE) for r in self.aside]

    def cancelled(self) -> list[tuple[int, UUID]]:
        """Give the jobs whose place the next occurrence takes."""
        return [
            (each.row.tenant_id, each.row.last_id)
            for each in self.expansions
            if each.step.cancel_running and each.row.last_id is not None
        ]

    def notices(self) -> list[tuple[ScheduleRow, str, dict[str, Any]]]:
        """Give what is worth an event beside the jobs and payments themselves."""
        found: list[tuple[ScheduleRow, str, dict[str, Any]]] = []
        for each in self.expansions:
            if missed := _missed(each):
                span = {"count": len(missed), "first": missed[0], "last": missed[-1]}
                found.append((each.row, "schedule.missed", span))
            if each.refused:
                found.append((each.row, "schedule.refused", {"count": each.refused}))
            if each.step.next_due is None:
                found.append((each.row, "schedule.ended", {"runs": each.step.runs}))
        return found


def read(rows: Iterable[ScheduleRow]) -> tuple[list[Due], list[ScheduleRow]]:
    """Read what was asked for; give those that cannot be read apart."""
    readable: list[Due] = []
    broken: list[ScheduleRow] = []
    for row in rows:
        try:
            readable.append((row, row.definition))
        except msgspec.MsgspecError:
            log.exception("schedule.unreadable", schedule_id=str(row.schedule_id))
            broken.append(row)
    return readable, broken


def named_calendars(due: Iterable[Due]) -> set[tuple[int, str]]:
    """Give the calendars that these schedules follow."""
    return {(row.tenant_id, d.rule.calendar) for row, d in due if d.rule.calendar is not None}


def find_calendar(due: Due, calendars: Calendars) -> Calendar | None:
    """Give a schedule's calendar; one that is gone closes no day, but is never deleted in use."""
    row, definition = due
    name = definition.rule.calendar
    return None if name is None else calendars.get((row.tenant_id, name))


def progress_of(row: ScheduleRow, running: Collection[UUID] = ()) -> Progress:
    """Say where a stored schedule stands."""
    return Progress(
        schedule_id=row.schedule_id,
        handled=row.handled,
        runs=row.runs,
        running=row.last_id is not None and row.last_id in running,
        buffered_for=row.buffered_for,
        paused_at=row.paused_at,
        resumed_at=row.resumed_at,
    )


def notes_of(entry: Entry) -> str | None:
    """Write what the policies did as words."""
    occurrence = entry.occurrence
    words = [*occurrence.notes, *(f"absorbed_{at.isoformat()}" for at in occurrence.merged)]
    return " ".join(words[:NOTES_MOST]) or None


def _ran(status: Status) -> bool:
    return status in {Status.FIRED, Status.LATE}


Told = tuple[str, str | None, UUID | None, str | None]
"""Label, kind and id of what was made, and the code of a refusal."""


def _told(each: Expansion, status: Status, result: Fired | Refusal | None) -> Told:
    match result:
        case None:
            return status.value, None, None, None
        case Fired(subject=subject):
            each.last_id = subject
            return status.value, each.definition.template.kind, subject, None
        case Refusal(code=code):
            each.refused += 1
            return Status.REFUSED.value, None, None, code.value


def _row(each: Expansion, entry: Entry, told: Told) -> NewOccurrence:
    status, kind, subject, code = told
    row, occurrence = each.row, entry.occurrence
    return NewOccurrence(
        *row.key,
        occurrence_id=identify(row.schedule_id, occurrence),
        scheduled_for=occurrence.scheduled_for,
        nominal_local=occurrence.nominal_local,
        due_at=entry.due_at,
        status=status,
        cause="rule",
        version=row.version,
        kind=kind,
        subject=subject,
        code=code,
        notes=notes_of(entry),
    )


def _missed(each: Expansion) -> list[datetime]:
    return [e.occurrence.scheduled_for for e in each.entries if e.status is Status.MISSED]
