"""Run a schedule on request: once now, or for past occurrences that have not run."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import islice, takewhile
from typing import Final, Literal
from uuid import UUID

import msgspec
from msgspec.structs import replace

from postdate.audit.spec import SYSTEM
from postdate.core.identity import Identity
from postdate.database.connection import clock
from postdate.database.connection.database import Connection, Database
from postdate.database.connection.off_loop import computed
from postdate.event.store.event import record_event
from postdate.intake.create_once import Remember, forget
from postdate.recurrence import zone
from postdate.recurrence.rule import RAN, Occurrence, Status
from postdate.schedule.change.occurrence import OccurrenceIntake
from postdate.schedule.change.schedule import lock_changeable
from postdate.schedule.change.validation import check_rights
from postdate.schedule.spec.expansion import notes_of
from postdate.schedule.spec.firing import Fired, Firing
from postdate.schedule.spec.rule import FIRST
from postdate.schedule.spec.schedule import Definition, Overlap, identify, occurrence_id
from postdate.schedule.spec.timeline import Segment, upcoming
from postdate.schedule.store import occurrence as occurrence_store
from postdate.schedule.store import schedule as store
from postdate.schedule.store import timeline
from postdate.schedule.store.occurrence import NewOccurrence, OccurrenceKey, Relabel
from postdate.schedule.store.schedule import Advance, ScheduleRow
from postdate.words.error import Code, Refusal, RefusedError, refuse

MAX_BACKFILL: Final = 1000
"""The most occurrences of one backfill."""

_TICK: Final = timedelta(microseconds=1)

BackfillAction = Literal["run", "ran_already", "left_out", "refused"]
LeftOut = Literal["rule", "ahead", "max_runs", "overlap", "unique"]
"""Why: by the rule itself, because the schedule will still come to it, or by one of its limits."""

Expected = tuple[Segment, Occurrence]


class Triggered(msgspec.Struct, frozen=True, kw_only=True):
    """The job or payment that a trigger created."""

    occurrence_id: UUID
    scheduled_for: datetime
    job_id: UUID | None = None
    payment_id: UUID | None = None


class BackfillItem(msgspec.Struct, frozen=True, kw_only=True):
    """One nominal occurrence of the range, and what is or would be done about it."""

    scheduled_for: datetime
    nominal_local: datetime
    action: BackfillAction
    left_out: LeftOut | None = None
    status: Status | None
    due_at: datetime | None = None
    subject: UUID | None = None
    code: str | None = None


class Backfill(msgspec.Struct, frozen=True, kw_only=True):
    """A backfill, or the plan of one."""

    dry_run: bool
    runs: int
    occurrences: list[BackfillItem]


class ScheduleRuns:
    """Trigger and backfill."""

    def __init__(self, database: Database, occurrences: OccurrenceIntake) -> None:
        self._database = database
        self._occurrences = occurrences

    async def trigger(
        self,
        actor: Identity,
        schedule_id: UUID,
        traceparent: str | None = None,
        remember: Remember[Triggered] = forget,
    ) -> Triggered:
        """Run a schedule once, now, regardless of its rule and of a pause."""
        async with self._database.write("schedule.trigger") as connection:
            row = await lock_changeable(connection, actor, schedule_id)
            check_rights(actor, row.definition)
            now = await clock.now(connection)
            at = now.replace(microsecond=now.microsecond // 1000 * 1000)
            firing = _firing(row, (row.version, row.definition), (at, now), traceparent, actor)
            [result] = await self._occurrences.fire(connection, [firing], now)
            if isinstance(result, Refusal):
                raise RefusedError(result)
            made = None if result.merged else result.subject
            if made is not None:
                await self._end_open(connection, row)
            timezone = zone.get(row.definition.rule.timezone)
            where = occurrence_id(schedule_id, at, f"trigger:{now.isoformat()}")
            entry = NewOccurrence(
                *row.key,
                occurrence_id=where,
                scheduled_for=at,
                nominal_local=zone.to_local(timezone, at),
                due_at=now,
                status=(Status.SKIPPED_BY_UNIQUE if made is None else Status.FIRED).value,
                cause="trigger",
                version=row.version,
                kind=None if made is None else row.definition.template.kind,
                subject=made,
            )
            await occurrence_store.insert(connection, [entry])
            if made is not None:
                await store.advance(connection, [_advance(row, last_id=made)])
            data = {"occurrence_id": where, "subject": result.subject}
            await record_event(connection, row.key[1:], "schedule.triggered", actor.key_id, data)
            is_job = row.definition.template.job is not None
            triggered = Triggered(
                occurrence_id=where,
                scheduled_for=at,
                job_id=result.subject if is_job else None,
                payment_id=None if is_job else result.subject,
            )
            await remember(connection, triggered)
        self._occurrences.announce([result])
        return triggered

    async def backfill(
        self,
        actor: Identity,
        schedule_id: UUID,
        span: tuple[datetime, datetime],
        traceparent: str | None = None,
        *,
        dry_run: bool,
        remember: Remember[Backfill] = forget,
    ) -> Backfill:
        """Run the occurrences of a past range that have not run, at the schedule's pace."""
        async with self._database.write("schedule.backfill") as connection:
            row = await lock_changeable(connection, actor, schedule_id)
            check_rights(actor, row.definition)
            now = await clock.now(connection)
            expected = await _expected(connection, row, span, now)
            keys = [OccurrenceKey(*row.key, identify(schedule_id, each)) for _, each in expected]
            known = await occurrence_store.find(connection, keys)
            labels = [known.get((schedule_id, key.occurrence_id)) for key in keys]
            items = _plan(row, expected, labels, now, running=await _running(connection, row))
            if dry_run:
                return _answer(items, dry_run=True)
            wanted = [n for n, item in enumerate(items) if item.action == "run"]
            firings = [
                _firing(row, _by(expected[n][0]), _when(items[n], now), traceparent, actor)
                for n in wanted
            ]
            fired = await self._occurrences.fire(connection, firings, now)
            for number, result in zip(wanted, fired, strict=True):
                items[number] = _with_result(items[number], result)
            done = [(items[n], keys[n], expected[n], labels[n]) for n in wanted]
            await _write(connection, done)
            await self._count(connection, row, fired, now)
            data = {"from": span[0], "until": span[1], "count": len(wanted)}
            await record_event(connection, row.key[1:], "schedule.backfilled", actor.key_id, data)
            answer = _answer(items, dry_run=False)
            await remember(connection, answer)
        self._occurrences.announce(fired)
        return answer

    async def _end_open(self, connection: Connection, row: ScheduleRow) -> None:
        """Cancel open runs if the schedule's policy is to replace them."""
        if row.definition.policies.overlap is Overlap.CANCEL_RUNNING and row.last_id is not None:
            await self._occurrences.cancel(connection, [(row.tenant_id, row.last_id)])

    async def _count(
        self,
        connection: Connection,
        row: ScheduleRow,
        fired: Sequence[Fired | Refusal],
        now: datetime,
    ) -> None:
        """Count the runs of a backfill against `max_runs`; end the schedule when it is reached."""
        made = [each.subject for each in fired if isinstance(each, Fired) and not each.merged]
        if not made:
            return
        await self._end_open(connection, row)
        max_runs, runs = row.definition.rule.max_runs, row.runs + len(made)
        ends = max_runs is not None and runs >= max_runs and row.ended_at is None
        ended_at = now if ends else row.ended_at
        step = _advance(row, runs=runs, last_id=made[-1], ended_at=ended_at)
        await store.advance(connection, [step])
        if ends:
            await store.put_timer(connection, row.key, None)
            await record_event(connection, row.key[1:], "schedule.ended", SYSTEM, {"runs": runs})


def _firing(
    row: ScheduleRow,
    by: tuple[int, Definition],
    when: tuple[datetime, datetime],
    traceparent: str | None,
    actor: Identity,
) -> Firing:
    version, definition = by
    return Firing(
        row.tenant_id,
        row.schedule_id,
        *when,
        version,
        definition.template,
        definition.policies,
        traceparent,
        ran_by=actor.persons,
    )


def _by(segment: Segment) -> tuple[int, Definition]:
    return segment.version, segment.definition


def _when(item: BackfillItem, now: datetime) -> tuple[datetime, datetime]:
    return item.scheduled_for, item.due_at or now


async def _running(connection: Connection, row: ScheduleRow) -> bool:
    last = [] if row.last_id is None else [row.last_id]
    return bool(await store.running(connection, last))


async def _expected(
    connection: Connection, row: ScheduleRow, span: tuple[datetime, datetime], now: datetime
) -> list[Expected]:
    """Return the occurrences of the versions in force; the first also covers the time before it."""
    begin, end = span
    if begin < FIRST:
        raise refuse(Code.INVALID_FIELD, f"It is before the year {FIRST:%Y}.", "from")
    if begin >= end:
        raise refuse(Code.INVALID_FIELD, "The range ends before it begins.", "until")
    if end > now:
        raise refuse(Code.INVALID_FIELD, "A backfill covers past occurrences only.", "until")
    held = await timeline.load_segments(connection, row, begin)
    found = await computed(row.tenant_id, _within, held, begin, end)
    if len(found) > MAX_BACKFILL:
        detail = f"The range has more than {MAX_BACKFILL} occurrences; use a shorter one."
        raise refuse(Code.INVALID_FIELD, detail, "until")
    return found


def _within(held: Sequence[Segment], begin: datetime, end: datetime) -> list[Expected]:
    coming = upcoming(held, begin - _TICK)
    return list(
        islice(takewhile(lambda each: each[1].scheduled_for < end, coming), MAX_BACKFILL + 1)
    )


def _plan(
    row: ScheduleRow,
    expected: Sequence[Expected],
    labels: Sequence[str | None],
    now: datetime,
    *,
    running: bool,
) -> list[BackfillItem]:
    """Return what to do with each occurrence; the schedule's limits apply to a backfill too."""
    pace = timedelta(seconds=60 / row.definition.policies.misfire.per_minute)
    items = [_item(row, each, label) for (_, each), label in zip(expected, labels, strict=True)]
    wanted = [number for number, item in enumerate(items) if item.action == "run"]
    allowed = _allowed(row, wanted, running=running)
    for number in wanted:
        why: LeftOut | None = allowed.get(number)
        if why is not None:
            items[number] = replace(items[number], action="left_out", left_out=why)
    runs = (number for number in wanted if number not in allowed)
    for run, number in enumerate(runs):
        items[number] = replace(items[number], due_at=now + run * pace)
    return items


def _allowed(row: ScheduleRow, wanted: Sequence[int], *, running: bool) -> dict[int, LeftOut]:
    """Return which of these may not run, and why.

    If runs must not overlap, at most one runs, because its end is not known.
    """
    overlap, max_runs = row.definition.policies.overlap, row.definition.rule.max_runs
    match overlap:
        case Overlap.ALLOW:
            runs = wanted
        case Overlap.SKIP | Overlap.BUFFER_ONE:
            runs = () if running else wanted[:1]
        case Overlap.CANCEL_RUNNING:
            runs = wanted[-1:]
    found: dict[int, LeftOut] = {number: "overlap" for number in wanted if number not in runs}
    left = len(runs) if max_runs is None else max(0, max_runs - row.runs)
    return found | dict.fromkeys(runs[left:], "max_runs")


def _item(row: ScheduleRow, each: Occurrence, label: str | None) -> BackfillItem:
    status = None if label is None else Status(label)
    action: BackfillAction = "run"
    left_out: LeftOut | None = None
    if each.skip is not None:
        action, left_out = "left_out", "rule"
    elif status is None and each.scheduled_for > row.handled:
        action, left_out = "left_out", "ahead"
    elif status is not None and status in RAN | {Status.BUFFERED}:
        action = "ran_already"
    return BackfillItem(
        scheduled_for=each.scheduled_for,
        nominal_local=each.nominal_local,
        action=action,
        left_out=left_out,
        status=each.skip if status is None else status,
    )


def _with_result(item: BackfillItem, result: Fired | Refusal) -> BackfillItem:
    match result:
        case Fired(merged=True):
            return replace(
                item, action="left_out", left_out="unique", status=Status.SKIPPED_BY_UNIQUE
            )
        case Fired(subject=subject):
            return replace(item, status=Status.LATE, subject=subject)
        case Refusal(code=code):
            return replace(item, action="refused", status=Status.REFUSED, code=code.value)


async def _write(
    connection: Connection,
    done: Sequence[tuple[BackfillItem, OccurrenceKey, Expected, str | None]],
) -> None:
    new: list[NewOccurrence] = []
    changed: list[Relabel] = []
    for item, key, (segment, occurrence), known in done:
        status = Status.REFUSED if item.status is None else item.status
        kind = None if item.subject is None else segment.definition.template.kind
        if known is not None:
            label = Relabel(*key, status.value, kind, item.subject, item.code, "backfill")
            changed.append(label)
            continue
        new.append(
            NewOccurrence(
                *key,
                scheduled_for=item.scheduled_for,
                nominal_local=item.nominal_local,
                due_at=item.due_at or item.scheduled_for,
                status=status.value,
                cause="backfill",
                version=segment.version,
                kind=kind,
                subject=item.subject,
                code=item.code,
                notes=notes_of(occurrence),
            )
        )
    await occurrence_store.insert(connection, new)
    await occurrence_store.relabel(connection, changed)


def _advance(
    row: ScheduleRow,
    *,
    last_id: UUID,
    runs: int | None = None,
    ended_at: datetime | None = None,
) -> Advance:
    return Advance(
        *row.key,
        runs=row.runs if runs is None else runs,
        handled=row.handled,
        buffered_for=row.buffered_for,
        last_id=last_id,
        missed_at=None,
        ended_at=ended_at or row.ended_at,
    )


def _answer(items: list[BackfillItem], *, dry_run: bool) -> Backfill:
    runs = sum(item.action == "run" for item in items)
    return Backfill(dry_run=dry_run, runs=runs, occurrences=items)
