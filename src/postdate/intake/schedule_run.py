"""Run a schedule out of turn: once now, or for what it has not run in the past."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import islice, takewhile
from typing import Final, Literal
from uuid import UUID

import msgspec

from postdate.intake.firing import Firings
from postdate.intake.schedule import Schedules, find_calendar, own
from postdate.intake.schedule_check import may
from postdate.model import zone
from postdate.model.errors import Code, Refusal, RefusedError, refuse
from postdate.model.firing import Fired, Firing
from postdate.model.identity import Identity
from postdate.model.recurrence import occurrences
from postdate.model.schedule import RAN, Occurrence, Status, identify, occurrence_id
from postdate.model.schedule_rules import FIRST, plan_of
from postdate.store import occurrence as occurrence_store
from postdate.store import schedule as store
from postdate.store.database import Connection, Database
from postdate.store.occurrence import NewOccurrence, OccurrenceKey, Relabel
from postdate.store.schedule import Advance, ScheduleRow

BACKFILL_MOST: Final = 1000
"""The most occurrences of one backfill."""

_TICK: Final = timedelta(microseconds=1)

BackfillAction = Literal["run", "ran_already", "left_out", "refused"]


class Triggered(msgspec.Struct, frozen=True, kw_only=True):
    """The job or payment that a trigger made."""

    occurrence_id: UUID
    scheduled_for: datetime
    job_id: UUID | None = None
    payment_id: UUID | None = None


class BackfillItem(msgspec.Struct, frozen=True, kw_only=True):
    """One nominal occurrence of the range, and what is or would be done about it."""

    scheduled_for: datetime
    nominal_local: datetime
    action: BackfillAction
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

    def __init__(self, database: Database, schedules: Schedules, firings: Firings) -> None:
        self._database = database
        self._schedules = schedules
        self._firings = firings

    async def trigger(
        self, who: Identity, schedule_id: UUID, traceparent: str | None = None
    ) -> Triggered:
        """Run a schedule once, now, whatever its rule and its pause say."""
        async with self._database.write() as connection:
            row = await own(connection, who, schedule_id)
            may(who, row.definition)
            now = await store.now(connection)
            at = now.replace(microsecond=now.microsecond // 1000 * 1000)
            firing = _firing(row, at, now, traceparent)
            [result] = await self._firings.fire(connection, [firing], now)
            if isinstance(result, Refusal):
                raise RefusedError(result)
            place = zone.find(row.definition.rule.timezone)
            where = occurrence_id(schedule_id, at, f"trigger:{now.isoformat()}")
            entry = NewOccurrence(
                *row.key,
                occurrence_id=where,
                scheduled_for=at,
                nominal_local=zone.to_local(place, at),
                due_at=now,
                status=Status.FIRED.value,
                cause="trigger",
                version=row.version,
                kind=row.definition.template.kind,
                subject=result.subject,
            )
            await occurrence_store.insert(connection, [entry])
            await _remember_last(connection, row, result.subject)
            data = {"occurrence_id": where, "subject": result.subject}
            await self._schedules.note(connection, row.key, "schedule.triggered", who.key_id, data)
        self._firings.tell([result])
        is_job = row.definition.template.job is not None
        return Triggered(
            occurrence_id=where,
            scheduled_for=at,
            job_id=result.subject if is_job else None,
            payment_id=None if is_job else result.subject,
        )

    async def backfill(
        self,
        who: Identity,
        schedule_id: UUID,
        span: tuple[datetime, datetime],
        traceparent: str | None = None,
        *,
        dry_run: bool,
    ) -> Backfill:
        """Run what the rule says for a range of the past and what has not run, at its pace."""
        async with self._database.write() as connection:
            row = await own(connection, who, schedule_id)
            may(who, row.definition)
            now = await store.now(connection)
            expected = await _expected(connection, row, span, now)
            keys = [OccurrenceKey(*row.key, identify(schedule_id, each)) for each in expected]
            known = await occurrence_store.find(connection, keys)
            labels = [known.get((schedule_id, key.occurrence_id)) for key in keys]
            items = _plan(row, expected, labels, now)
            if dry_run:
                return _answer(items, dry_run=True)
            wanted = [n for n, item in enumerate(items) if item.action == "run"]
            firings = [
                _firing(row, items[n].scheduled_for, items[n].due_at or now, traceparent)
                for n in wanted
            ]
            fired = await self._firings.fire(connection, firings, now)
            for number, result in zip(wanted, fired, strict=True):
                items[number] = _told(items[number], result)
            await _write(connection, row, [(items[n], keys[n], labels[n]) for n in wanted])
            data = {"from": span[0], "until": span[1], "count": len(wanted)}
            await self._schedules.note(connection, row.key, "schedule.backfilled", who.key_id, data)
        self._firings.tell(fired)
        return _answer(items, dry_run=False)


def _firing(
    row: ScheduleRow, scheduled_for: datetime, due_at: datetime, traceparent: str | None
) -> Firing:
    definition = row.definition
    return Firing(
        row.tenant_id,
        row.schedule_id,
        scheduled_for,
        due_at,
        definition.template,
        definition.policies,
        traceparent,
    )


async def _expected(
    connection: Connection, row: ScheduleRow, span: tuple[datetime, datetime], now: datetime
) -> list[Occurrence]:
    begin, end = span
    if begin < FIRST:
        raise refuse(Code.INVALID_FIELD, f"It lies before the year {FIRST:%Y}.", "from")
    if begin >= end:
        raise refuse(Code.INVALID_FIELD, "The range ends before it begins.", "until")
    if end > now:
        raise refuse(Code.INVALID_FIELD, "A backfill is for the past.", "until")
    plan = plan_of(row.definition, await find_calendar(connection, row))
    within = takewhile(lambda each: each.scheduled_for < end, occurrences(plan, begin - _TICK))
    found = list(islice(within, BACKFILL_MOST + 1))
    if len(found) > BACKFILL_MOST:
        detail = f"The range has more than {BACKFILL_MOST} occurrences; take a shorter one."
        raise refuse(Code.INVALID_FIELD, detail, "until")
    return found


def _plan(
    row: ScheduleRow, expected: Sequence[Occurrence], labels: Sequence[str | None], now: datetime
) -> list[BackfillItem]:
    pace = timedelta(seconds=60 / row.definition.policies.misfire.per_minute)
    items: list[BackfillItem] = []
    runs = 0
    for each, label in zip(expected, labels, strict=True):
        status = None if label is None else Status(label)
        action: BackfillAction = "run"
        # What lies ahead of the expander will still be expanded by it.
        if each.skip is not None or (status is None and each.scheduled_for > row.handled):
            action = "left_out"
        elif status is not None and status in RAN | {Status.BUFFERED}:
            action = "ran_already"
        due_at = now + runs * pace if action == "run" else None
        runs += action == "run"
        items.append(
            BackfillItem(
                scheduled_for=each.scheduled_for,
                nominal_local=each.nominal_local,
                action=action,
                status=each.skip if status is None else status,
                due_at=due_at,
            )
        )
    return items


def _told(item: BackfillItem, result: Fired | Refusal) -> BackfillItem:
    replace = msgspec.structs.replace
    match result:
        case Fired(subject=subject):
            return replace(item, status=Status.LATE, subject=subject)
        case Refusal(code=code):
            return replace(item, action="refused", status=Status.REFUSED, code=code.value)


async def _write(
    connection: Connection,
    row: ScheduleRow,
    done: Sequence[tuple[BackfillItem, OccurrenceKey, str | None]],
) -> None:
    new: list[NewOccurrence] = []
    changed: list[Relabel] = []
    for item, key, known in done:
        status = Status.REFUSED if item.status is None else item.status
        kind = None if item.subject is None else row.definition.template.kind
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
                version=row.version,
                kind=kind,
                subject=item.subject,
                code=item.code,
            )
        )
    await occurrence_store.insert(connection, new)
    await occurrence_store.relabel(connection, changed)


async def _remember_last(connection: Connection, row: ScheduleRow, subject: UUID) -> None:
    step = Advance(*row.key, row.runs, row.handled, row.buffered_for, subject, None, row.ended_at)
    await store.advance(connection, [step])


def _answer(items: list[BackfillItem], *, dry_run: bool) -> Backfill:
    runs = sum(item.action == "run" for item in items)
    return Backfill(dry_run=dry_run, runs=runs, occurrences=items)
