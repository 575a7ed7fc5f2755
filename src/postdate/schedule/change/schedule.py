"""Create, change, pause, resume and delete schedules: each in one transaction."""

import random
from datetime import datetime, timedelta
from uuid import UUID

import msgspec

from postdate.core import any_json
from postdate.core.identity import Identity
from postdate.core.ids import BUCKETS, new_id
from postdate.database.connection import clock
from postdate.database.connection.database import Connection, Database
from postdate.database.connection.off_loop import computed
from postdate.event.store.event import record_event
from postdate.intake.before_change import BeforeChange, always
from postdate.intake.create_once import CreateOnce, CreateRequest, Remember, Shown, forget
from postdate.intake.idempotency import CREATED, Granted, Refused
from postdate.intake.store import KeyScope
from postdate.job.accept.payload_encryption import PayloadEncryption
from postdate.recurrence.calendar import Calendar
from postdate.schedule.change.validation import ScheduleCheck, check_rights
from postdate.schedule.spec import rule as schedule_rules
from postdate.schedule.spec.expansion import BUFFER_SECONDS, ExpansionProgress, next_due, next_up
from postdate.schedule.spec.preview import Preview
from postdate.schedule.spec.rule import plan_of
from postdate.schedule.spec.schedule import Definition, jitter
from postdate.schedule.spec.spec import (
    AcceptedSchedule,
    PreviewSpec,
    SchedulePatch,
    ScheduleSpec,
    Standing,
    accepted,
    view,
)
from postdate.schedule.spec.timeline import Segment, Version
from postdate.schedule.spec.warning import ScheduleWarning, warnings_of
from postdate.schedule.store import schedule as store
from postdate.schedule.store import timeline
from postdate.schedule.store.schedule import Authors, ScheduleKey, ScheduleRow, key_of
from postdate.words.error import Code, not_found, refuse


class Schedules:
    """Changes schedules on behalf of clients."""

    def __init__(
        self, database: Database, check: ScheduleCheck, encryption: PayloadEncryption
    ) -> None:
        self._database = database
        self._check = check
        self._encryption = encryption
        self._once = CreateOnce(database)

    async def create(
        self, actor: Identity, spec: ScheduleSpec, key: str | None, traceparent: str | None = None
    ) -> Granted | Refused:
        """Accept a schedule; its first occurrence is the first after now."""
        await self._encryption.prepare_keys(self._database, [actor.tenant_id])
        if key is None:
            made = await self._create(actor, spec, traceparent, forget)
            return Granted(made, made.schedule_id)
        canonical = self._encryption.canonical_schedule(actor.tenant_id, spec)
        wanted = CreateRequest(
            tenant_id=actor.tenant_id,
            operation="",
            key=key,
            members=any_json.decode(canonical),
            scope=KeyScope.SCHEDULE,
            accounts=actor.accounts,
        )
        return await self._once.run(
            wanted,
            lambda remember: self._create(actor, spec, traceparent, remember),
            lambda made: Shown(made, made, made.schedule_id),
            CREATED,
        )

    async def _create(
        self,
        actor: Identity,
        spec: ScheduleSpec,
        traceparent: str | None,
        remember: Remember[AcceptedSchedule],
    ) -> AcceptedSchedule:
        async with self._database.connection() as connection:
            now = await clock.now(connection)
            definition = schedule_rules.completed(spec.definition(), now)
            await self._check.check_quota(connection, actor)
            calendar = await self._check.run(connection, actor, definition, now)
            first = _first(definition, calendar, now)
            warned = await computed(
                actor.tenant_id, warnings_of, first.plan, definition.policies, now
            )
        async with self._database.write("schedule.create") as connection:
            made = await self._insert(connection, actor, first, warned, traceparent)
            await remember(connection, made)
        return made

    async def preview(self, actor: Identity, spec: PreviewSpec) -> Preview:
        """Show what a schedule would do; nothing is written."""
        async with self._database.connection() as connection:
            now = await clock.now(connection)
            compute = await self._check.preview(connection, actor, spec, now)
        # The connection is returned first, because evaluating a rule can take a while.
        return await computed(actor.tenant_id, compute)

    def _sealed(self, key: ScheduleKey, definition: Definition) -> Definition:
        """Return a definition as it is stored."""
        template = self._encryption.template(key.tenant_id, key.schedule_id, definition.template)
        return msgspec.structs.replace(definition, template=template)

    async def _insert(
        self,
        connection: Connection,
        actor: Identity,
        first: Segment,
        warned: list[ScheduleWarning],
        traceparent: str | None,
    ) -> AcceptedSchedule:
        unix_ms = self._database.unix_ms()
        schedule = key_of(actor.tenant_id, new_id(random.randrange(BUCKETS), unix_ms))
        now, definition = await clock.now(connection), first.definition
        progress = ExpansionProgress(schedule_id=schedule.schedule_id, handled=now)
        due_at = await computed(actor.tenant_id, next_due, [first], progress)
        if due_at is None:
            raise refuse(Code.INVALID_FIELD, "The last occurrence has just passed.", "end_at")
        await store.insert(connection, schedule, now)
        version = Version(
            number=1,
            since=now,
            previous_until=now,
            definition=self._sealed(schedule, definition),
        )
        authors = Authors(actor.key_id, actor.persons)
        await store.insert_version(
            connection, schedule, version, actor.key_id, traceparent, authors=authors
        )
        await store.put_timer(connection, schedule, due_at)
        await record_event(
            connection, schedule[1:], "schedule.created", actor.key_id, {"version": 1}
        )
        standing = Standing(
            schedule_id=schedule.schedule_id,
            version=1,
            runs=0,
            created_at=now,
            changed_at=now,
            next_due_at=due_at,
        )
        template = self._encryption.answered(actor.tenant_id, definition.template)
        shown = msgspec.structs.replace(definition, template=template)
        return accepted(view(shown, standing), warned)

    async def change(
        self,
        actor: Identity,
        schedule_id: UUID,
        patch: SchedulePatch,
        traceparent: str | None = None,
        before_change: BeforeChange[ScheduleRow] = always,
    ) -> list[ScheduleWarning]:
        """Create a new version from now on; occurrences already due keep the old one."""
        fields = sorted(patch.changes())
        if not fields:
            raise refuse(Code.INVALID_FIELD, "Give at least one field to change.")
        await self._encryption.prepare_keys(self._database, [actor.tenant_id])
        async with self._database.write("schedule.change") as connection:
            row = await lock_changeable(connection, actor, schedule_id)
            if not await before_change(connection, row):
                return []
            now = await clock.now(connection)
            before = await self._opened(connection, row)
            after = schedule_rules.completed(patch.applied(before), now)
            calendar = await self._check.run(connection, actor, after, now)
            plan = plan_of(after, calendar)
            warned = await computed(actor.tenant_id, warnings_of, plan, after.policies, now)
            version = _next_version(row, before, after, now)
            sealed = msgspec.structs.replace(version, definition=self._sealed(row.key, after))
            known = await store.read_authors(connection, row.key, row.version)
            authors = _authors(actor, known, before, after)
            await store.insert_version(
                connection, row.key, sealed, actor.key_id, traceparent, authors=authors
            )
            if _decides_alike(before, after) and row.set_aside_at is None:
                await store.change(connection, row.key, version.number, row.ended_at)
            else:
                await _set_timer(connection, row, version)
            data = {"version": version.number, "fields": fields}
            await record_event(connection, row.key[1:], "schedule.changed", actor.key_id, data)
        return warned

    async def _opened(self, connection: Connection, row: ScheduleRow) -> Definition:
        definition = row.definition
        template = await self._encryption.open_template(
            connection, row.tenant_id, row.schedule_id, definition.template
        )
        return msgspec.structs.replace(definition, template=template)

    async def pause(
        self,
        actor: Identity,
        schedule_id: UUID,
        note: str | None,
        before: BeforeChange[ScheduleRow] = always,
    ) -> None:
        """Pause a schedule: skip its occurrences and record them, until it is resumed."""
        async with self._database.write("schedule.pause") as connection:
            row = await lock_changeable(connection, actor, schedule_id, legible=False)
            if not await before(connection, row) or row.paused:
                return
            await store.pause(connection, row.key, note)
            await record_event(
                connection, row.key[1:], "schedule.paused", actor.key_id, {"note": note}
            )

    async def resume(
        self, actor: Identity, schedule_id: UUID, before: BeforeChange[ScheduleRow] = always
    ) -> None:
        """Resume a schedule that is paused or set aside.

        Occurrences that a pause skipped stay skipped and can be backfilled. The misfire policy
        decides about occurrences that came due while the schedule was set aside.
        """
        async with self._database.write("schedule.resume") as connection:
            row = await lock_changeable(connection, actor, schedule_id, legible=False)
            # It runs from now on because of this key, which must be able to run it by itself.
            check_rights(actor, row.readable_part)
            if not await before(connection, row):
                return
            if row.paused:
                await store.resume(connection, row.key)
            if row.set_aside_at is not None:
                await store.take_up(connection, row.key, await clock.now(connection))
            if row.paused or row.set_aside_at is not None:
                await record_event(connection, row.key[1:], "schedule.resumed", actor.key_id, {})

    async def delete(self, actor: Identity, schedule_id: UUID) -> None:
        """Delete a schedule; jobs and payments that it created continue."""
        async with self._database.write("schedule.delete") as connection:
            row = await lock_changeable(connection, actor, schedule_id, legible=False)
            await store.put_timer(connection, row.key, None)
            await store.delete(connection, row.key)
            await record_event(connection, row.key[1:], "schedule.deleted", actor.key_id, {})


def _authors(actor: Identity, known: Authors, before: Definition, after: Definition) -> Authors:
    """Return who is behind a new version; changing only the name does not count."""
    if after.template != before.template:
        return Authors(actor.key_id, actor.persons)
    if (after.rule, after.policies) != (before.rule, before.policies):
        return Authors(known.template_by, known.persons | actor.persons)
    return known


async def locked(connection: Connection, tenant_id: int, schedule_id: UUID) -> ScheduleRow:
    """Lock a schedule against its expander, or refuse an id that is not one of this tenant's."""
    schedule = key_of(tenant_id, schedule_id)
    if await store.lock(connection, schedule) is not None:
        rows = await store.load(connection, [schedule])
        if rows:
            return rows[0]
    raise not_found("schedule", schedule_id)


async def lock_changeable(
    connection: Connection, actor: Identity, schedule_id: UUID, *, legible: bool = True
) -> ScheduleRow:
    """Lock a schedule that a key may change: a limited key, only one it could have created.

    With `legible`, a schedule whose definition can no longer be read is refused.
    """
    row = await locked(connection, actor.tenant_id, schedule_id)
    if not row.visible(actor.accounts):
        raise not_found("schedule", schedule_id)
    try:
        payment = (row.definition if legible else row.readable_part).template.payment
    except msgspec.MsgspecError as error:
        raise schedule_rules.refuse_unreadable(schedule_id) from error
    if payment and actor.accounts is not None and payment.from_account_id not in actor.accounts:
        raise refuse(Code.FORBIDDEN, f"The key may not pay from {payment.from_account_id}.")
    return row


def _first(definition: Definition, calendar: Calendar | None, now: datetime) -> Segment:
    return Segment(1, definition, plan_of(definition, calendar), now)


def _next_version(
    row: ScheduleRow, before: Definition, after: Definition, now: datetime
) -> Version:
    """Return the instant from which a new version applies, so that no occurrence is lost."""
    shift = jitter(row.schedule_id, before.policies.jitter_seconds)
    since = max(row.handled, row.since, now - shift)
    until = since
    if row.set_aside_at is not None:
        # The old version cannot be expanded: the new one takes over where it stopped.
        since = until = row.handled
    elif _decides_alike(before, after):
        # Only the name changed: the new version also applies to what is already due.
        since = until = row.since
    elif row.ended_at is not None:
        until = row.handled
    return Version(number=row.version + 1, since=since, previous_until=until, definition=after)


def _decides_alike(before: Definition, after: Definition) -> bool:
    return msgspec.structs.replace(after, name=before.name) == before


async def _set_timer(connection: Connection, row: ScheduleRow, version: Version) -> None:
    """Set the timer to the next occurrence; what the old version must still expand is first."""
    await store.change(connection, row.key, version.number, None)
    [changed] = await store.load(connection, [row.key])
    held = await timeline.load_segments(connection, changed, changed.handled)
    progress = ExpansionProgress(schedule_id=row.schedule_id, handled=row.handled, runs=row.runs)
    found = await computed(row.tenant_id, next_up, held, progress)
    timers = await store.timers(connection, [row.key])
    if found is not None and found.segment.version < version.number and timers:
        return
    now = await clock.now(connection)
    due_at = None if found is None else found.due_at
    if row.buffered_for is not None:
        look = now + timedelta(seconds=BUFFER_SECONDS)
        due_at = look if due_at is None else min(look, due_at)
    # Never in the past: expanders read from a mark that follows the present.
    await store.put_timer(connection, row.key, due_at and max(due_at, now))
    if due_at is None:
        await store.change(connection, row.key, version.number, now)
