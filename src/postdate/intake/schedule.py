"""Create, change, pause, resume and delete schedules: each in one transaction."""

import random
from datetime import datetime
from itertools import islice, takewhile
from typing import Any, Final
from uuid import UUID

import msgspec

from postdate.intake.answers import Answer, Answers, Ask, commit, created
from postdate.intake.schedule_check import ScheduleCheck
from postdate.intake.seal import Seals
from postdate.model import schedule_rules
from postdate.model.calendar import Calendar
from postdate.model.errors import Code, RefusedError, refuse
from postdate.model.expansion import Progress, next_due
from postdate.model.identity import Identity
from postdate.model.ids import BUCKETS, new_id
from postdate.model.recurrence import Plan, occurrences
from postdate.model.schedule import Definition, Status, identify, jitter
from postdate.model.schedule_rules import plan_of
from postdate.model.schedule_spec import SchedulePatch, ScheduleSpec, Standing, view
from postdate.store import calendar as calendar_store
from postdate.store import event as event_store
from postdate.store import idempotency as idempotency_store
from postdate.store import occurrence as occurrence_store
from postdate.store import schedule as store
from postdate.store.database import Connection, Database
from postdate.store.event import NewEvent
from postdate.store.occurrence import NewOccurrence
from postdate.store.schedule import ScheduleKey, ScheduleRow, key_of

SCOPE: Final = "schedule"
BEHIND_MOST: Final = 200
"""A schedule with more due occurrences than this is changed when it has caught up."""


class CreateAsk(Ask, frozen=True, kw_only=True):
    """A schedule asked for under a key."""


class Schedules:
    """What a client may do with schedules, apart from running them."""

    def __init__(self, database: Database, check: ScheduleCheck, seals: Seals) -> None:
        self._database = database
        self._check = check
        self._seals = seals

    async def create(
        self, who: Identity, spec: ScheduleSpec, key: str | None, traceparent: str | None = None
    ) -> Answer:
        """Accept a schedule; its first occurrence is the first after now."""
        await self._prepare(who.tenant_id)
        ask = CreateAsk(
            key=idempotency_store.key_of(who.tenant_id, SCOPE, key or ""),
            request=self._seals.canonical_schedule(who.tenant_id, spec),
        )
        if key is not None:
            async with self._database.writer.acquire() as connection:
                known = await Answers.find(connection, [ask])
            if not known.fresh(ask):
                return known.known(ask)
        async with self._database.writer.acquire() as connection:
            now = await store.now(connection)
            definition = schedule_rules.completed(spec.definition(), now)
            await self._check.room(connection, who)
            calendar = await self._check.run(connection, who, definition, now)
        plan = plan_of(definition, calendar)

        async def write(connection: Connection) -> Answer:
            if key is None:
                return await self._insert(connection, who, definition, plan, traceparent)
            answers = await Answers.find(connection, [ask])
            if not answers.fresh(ask):
                return answers.known(ask)
            made = await self._insert(connection, who, definition, plan, traceparent)
            answer = answers.add(ask, made)
            await answers.keep(connection)
            return answer

        return await commit(self._database, write)

    async def _prepare(self, tenant_id: int) -> None:
        """Have the key at hand with which a tenant's payloads are sealed, if they are."""
        if self._seals.wanted(tenant_id):
            async with self._database.write() as connection:
                await self._seals.prepare(connection, [tenant_id])

    def _sealed(self, key: ScheduleKey, definition: Definition) -> Definition:
        """Give a definition as it is stored."""
        template = self._seals.template(key.tenant_id, key.schedule_id, definition.template)
        return msgspec.structs.replace(definition, template=template)

    async def _insert(
        self,
        connection: Connection,
        who: Identity,
        definition: Definition,
        plan: Plan,
        traceparent: str | None,
    ) -> Answer:
        unix_ms = self._database.unix_ms()
        schedule = key_of(who.tenant_id, new_id(random.randrange(BUCKETS), unix_ms))
        now = await store.now(connection)
        progress = Progress(schedule_id=schedule.schedule_id, handled=now)
        due_at = next_due(plan, definition.policies, progress)
        if due_at is None:
            raise refuse(Code.INVALID_FIELD, "The last occurrence has just passed.", "end_at")
        await store.insert(connection, schedule, now)
        sealed = self._sealed(schedule, definition)
        await store.insert_version(connection, schedule, 1, sealed, who.key_id, traceparent)
        await store.put_timer(connection, schedule, due_at)
        await self.note(connection, schedule, "schedule.created", who.key_id, {"version": 1})
        standing = Standing(
            schedule_id=schedule.schedule_id,
            version=1,
            runs=0,
            created_at=now,
            changed_at=now,
            next_due_at=due_at,
        )
        told = self._seals.answered(who.tenant_id, definition.template)
        shown = msgspec.structs.replace(definition, template=told)
        return created(view(shown, standing), schedule.schedule_id)

    async def change(
        self,
        who: Identity,
        schedule_id: UUID,
        patch: SchedulePatch,
        traceparent: str | None = None,
    ) -> None:
        """Let a new version hold from the next occurrence on."""
        fields = sorted(patch.given())
        if not fields:
            raise refuse(Code.INVALID_FIELD, "Nothing is to be changed.")
        await self._prepare(who.tenant_id)
        async with self._database.write() as connection:
            row = await own(connection, who, schedule_id)
            now = await store.now(connection)
            before = await self._opened(connection, row)
            after = schedule_rules.completed(patch.applied(before), now)
            calendar = await self._check.run(connection, who, after, now)
            await _settle_past(connection, row, before, now)
            version, shift = row.version + 1, jitter(schedule_id, after.policies.jitter_seconds)
            handled = max(row.handled, now - shift)
            progress = Progress(schedule_id=schedule_id, handled=handled, runs=row.runs)
            due_at = next_due(plan_of(after, calendar), after.policies, progress)
            sealed = self._sealed(row.key, after)
            await store.insert_version(
                connection, row.key, version, sealed, who.key_id, traceparent
            )
            ended_at = now if due_at is None else None
            await store.change(connection, row.key, version, handled, ended_at)
            await store.put_timer(connection, row.key, due_at)
            data = {"version": version, "fields": fields}
            await self.note(connection, row.key, "schedule.changed", who.key_id, data)

    async def _opened(self, connection: Connection, row: ScheduleRow) -> Definition:
        definition = row.definition
        template = await self._seals.open_template(
            connection, row.tenant_id, row.schedule_id, definition.template
        )
        return msgspec.structs.replace(definition, template=template)

    async def pause(self, who: Identity, schedule_id: UUID, note: str | None) -> None:
        """Skip every occurrence from now on, until it is resumed; each is noted in the book."""
        async with self._database.write() as connection:
            row = await own(connection, who, schedule_id)
            if row.paused:
                return
            await store.pause(connection, row.key, note)
            await self.note(connection, row.key, "schedule.paused", who.key_id, {"note": note})

    async def resume(self, who: Identity, schedule_id: UUID) -> None:
        """End a pause; what it skipped stays skipped and can be backfilled."""
        async with self._database.write() as connection:
            row = await own(connection, who, schedule_id)
            if not row.paused:
                return
            await store.resume(connection, row.key)
            await self.note(connection, row.key, "schedule.resumed", who.key_id, {})

    async def delete(self, who: Identity, schedule_id: UUID) -> None:
        """End a schedule for ever; jobs and payments that it has made go on."""
        async with self._database.write() as connection:
            row = await own(connection, who, schedule_id)
            await store.put_timer(connection, row.key, None)
            await store.delete(connection, row.key)
            await self.note(connection, row.key, "schedule.deleted", who.key_id, {})

    async def note(
        self,
        connection: Connection,
        schedule: ScheduleKey,
        kind: str,
        actor: str,
        data: dict[str, Any],
    ) -> None:
        """Insert an event about a schedule."""
        event_id = new_id(schedule.bucket, self._database.unix_ms())
        await event_store.insert(connection, [NewEvent(*schedule, event_id, kind, actor, data)])


async def locked(connection: Connection, tenant_id: int, schedule_id: UUID) -> ScheduleRow:
    """Lock a schedule against its expander, or refuse an id that is not one of this tenant's."""
    schedule = key_of(tenant_id, schedule_id)
    if await store.lock(connection, schedule) is not None:
        rows = await store.load(connection, [schedule])
        if rows:
            return rows[0]
    raise no_schedule(schedule_id)


async def own(connection: Connection, who: Identity, schedule_id: UUID) -> ScheduleRow:
    """Lock a schedule that a key may change: a limited one only what it could have made."""
    row = await locked(connection, who.tenant_id, schedule_id)
    template = row.definition.template
    if not template.visible(who.accounts):
        raise no_schedule(schedule_id)
    payment = template.payment
    if payment and who.accounts is not None and payment.from_account_id not in who.accounts:
        raise refuse(Code.FORBIDDEN, f"The key may not pay from {payment.from_account_id}.")
    return row


def no_schedule(schedule_id: UUID) -> RefusedError:
    """Refuse an id in the words for absent and foreign ones alike."""
    return refuse(Code.NOT_FOUND, f"There is no schedule {schedule_id}.")


async def find_calendar(connection: Connection, row: ScheduleRow) -> Calendar | None:
    """Give the calendar that a stored schedule follows."""
    name = row.definition.rule.calendar
    if name is None:
        return None
    found = await calendar_store.find(connection, [(row.tenant_id, name)])
    return found.get((row.tenant_id, name))


async def _settle_past(
    connection: Connection, row: ScheduleRow, before: Definition, now: datetime
) -> None:
    """Write into the book what was due under the old version and not expanded yet.

    The new version begins with a clean book; this is seldom more than one occurrence.
    """
    shift = jitter(row.schedule_id, before.policies.jitter_seconds)
    plan = plan_of(before, await find_calendar(connection, row))
    coming = occurrences(plan, row.handled) if row.ended_at is None else iter(())
    due = takewhile(lambda each: each.scheduled_for + shift <= now, coming)
    past = list(islice(due, BEHIND_MOST + 1))
    if len(past) > BEHIND_MOST:
        detail = "It has many due occurrences to go through; try again in a moment."
        raise refuse(Code.CONFLICT, detail, status="behind")
    rows = [
        NewOccurrence(
            *row.key,
            occurrence_id=identify(row.schedule_id, each),
            scheduled_for=each.scheduled_for,
            nominal_local=each.nominal_local,
            due_at=each.scheduled_for + shift,
            status=(each.skip or Status.MISSED).value,
            cause="rule",
            version=row.version,
            notes=" ".join((*each.notes, "changed")),
        )
        for each in past
    ]
    await occurrence_store.insert(connection, rows)
