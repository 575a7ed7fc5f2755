"""Schedules: one, a page of them, their coming and their past occurrences."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from uuid import UUID

import msgspec

from postdate.audit.spec import SYSTEM
from postdate.core.identity import Identity
from postdate.core.ids import MAX_ID, MIN_ID
from postdate.core.log import Log
from postdate.core.shape import shaped
from postdate.database.connection import clock
from postdate.database.connection.database import Database
from postdate.database.connection.off_loop import computed
from postdate.database.connection.query import Reader
from postdate.event.store import event as event_store
from postdate.recurrence.rule import Status
from postdate.schedule.spec.expansion import ExpansionProgress
from postdate.schedule.spec.preview import Preview, preview_stored
from postdate.schedule.spec.rule import refuse_unreadable
from postdate.schedule.spec.schedule import Definition
from postdate.schedule.spec.spec import ScheduleView, Standing, view
from postdate.schedule.store import encrypted_template, schedule_view, timeline
from postdate.schedule.store import occurrence as occurrence_store
from postdate.schedule.store import schedule as store
from postdate.schedule.store.occurrence import OccurrenceRow, RunOutcome
from postdate.schedule.store.schedule import ScheduleRow, key_of
from postdate.schedule.store.schedule_view import TimedSchedule
from postdate.secret.payload_encryption import PayloadCipher
from postdate.secret.secret import SecretError

log = Log()


class OccurrenceView(msgspec.Struct, frozen=True, kw_only=True):
    """An occurrence that was due, and its result."""

    occurrence_id: UUID
    scheduled_for: datetime
    nominal_local: datetime
    due_at: datetime
    status: Status
    cause: str
    version: int
    job_id: UUID | None
    payment_id: UUID | None
    code: str | None
    notes: list[str]
    created_at: datetime
    outcome: RunOutcome | None
    """How the job or payment that it created has ended; null while that is open, or with none."""


class ScheduleViews:
    """Read schedules on behalf of a tenant."""

    def __init__(self, database: Database, cipher: PayloadCipher | None) -> None:
        self._database = database
        self._cipher = cipher

    async def find(self, actor: Identity, schedule_id: UUID) -> ScheduleView | None:
        """Show one schedule."""
        reader = self._database.tenant_reader(actor.tenant_id)
        found = await _find(reader, actor, schedule_id)
        return None if found is None else await self._show(reader, found)

    async def page(
        self,
        actor: Identity,
        after: UUID | None,
        limit: int,
        *,
        missed: bool = False,
        set_aside: bool = False,
        name: str | None = None,
    ) -> tuple[list[ScheduleView], UUID | None]:
        """List schedules: all, with a missed occurrence, set aside, or with a name.

        A key that is limited to accounts gets short pages: what is not its own is left out.
        """
        tenant_id = actor.tenant_id
        reader = self._database.tenant_reader(tenant_id)
        start = after or MIN_ID
        if name is None:
            found = await schedule_view.page(
                reader, tenant_id, start, limit + 1, missed=missed, set_aside=set_aside
            )
        else:
            found = await schedule_view.called(reader, tenant_id, name, start, limit + 1)
        own = [
            each
            for each in found[:limit]
            if each.row.visible(actor.accounts)
            and not (missed and each.row.missed_at is None)
            and not (set_aside and each.row.set_aside_at is None)
        ]
        shown = [await self._show(reader, each) for each in own]
        return shown, found[limit - 1].row.schedule_id if len(found) > limit else None

    async def _show(self, reader: Reader, found: TimedSchedule) -> ScheduleView:
        return view(await self._opened(reader, found.row), _standing(found.row, found.due_at))

    async def _opened(self, reader: Reader, row: ScheduleRow) -> Definition:
        definition = row.readable_part
        try:
            template = await encrypted_template.decrypt(
                self._cipher, reader, row.tenant_id, row.schedule_id, definition.template
            )
        except SecretError as error:
            # The rest of it can be shown all the same.
            log.warning("schedule.sealed", schedule_id=str(row.schedule_id), error=str(error))
            template = encrypted_template.without_payload(definition.template)
        return msgspec.structs.replace(definition, template=template)

    async def preview(self, actor: Identity, schedule_id: UUID, count: int) -> Preview | None:
        """Compute the next occurrences."""
        reader = self._database.tenant_reader(actor.tenant_id)
        found = await _find(reader, actor, schedule_id)
        if found is None:
            return None
        row = found.row
        try:
            held = await timeline.load_segments(reader, row, row.handled)
        except msgspec.MsgspecError as error:
            raise refuse_unreadable(schedule_id) from error
        now = await clock.now(reader)
        if row.ended_at is not None:
            count = 0
        progress = ExpansionProgress(schedule_id=schedule_id, handled=row.handled, runs=row.runs)
        return await computed(actor.tenant_id, preview_stored, held, progress, now, count)

    async def book(
        self,
        actor: Identity,
        schedule_id: UUID,
        before: UUID | None,
        *,
        status: Status | None,
        limit: int,
    ) -> tuple[list[OccurrenceView], UUID | None] | None:
        """List past occurrences, newest first; also those of a deleted schedule."""
        reader = self._database.tenant_reader(actor.tenant_id)
        kept = await store.load_any(reader, key_of(actor.tenant_id, schedule_id))
        if kept is None or not kept.visible(actor.accounts):
            return None
        rows = await occurrence_store.page(
            reader,
            key_of(actor.tenant_id, schedule_id),
            before or MAX_ID,
            None if status is None else status.value,
            limit + 1,
        )
        more = rows[limit - 1].occurrence_id if len(rows) > limit else None
        ended = await occurrence_store.ended(reader, rows[:limit])
        return [_entry(row, ended) for row in rows[:limit]], more

    async def recent_occurrences(
        self, tenant_id: int, schedules: Sequence[ScheduleView], limit: int
    ) -> dict[UUID, list[OccurrenceView]]:
        """Return the latest occurrences of each schedule, in order."""
        keys = [key_of(tenant_id, one.schedule_id) for one in schedules]
        reader = self._database.tenant_reader(tenant_id)
        found = await occurrence_store.recent(reader, keys, limit)
        every = [row for rows in found.values() for row in rows]
        ended = await occurrence_store.ended(reader, every)
        return {
            schedule_id: [_entry(row, ended) for row in rows] for schedule_id, rows in found.items()
        }

    async def paused_by(self, tenant_id: int, schedules: Sequence[ScheduleView]) -> dict[UUID, str]:
        """Return who paused each paused schedule."""
        paused = [one.schedule_id for one in schedules if one.paused_at is not None]
        reader = self._database.tenant_reader(tenant_id)
        found = await event_store.last_actors(reader, tenant_id, paused, "schedule.paused")
        return {schedule_id: actor or SYSTEM for schedule_id, actor in found.items()}


async def _find(reader: Reader, actor: Identity, schedule_id: UUID) -> TimedSchedule | None:
    found = await schedule_view.find(reader, key_of(actor.tenant_id, schedule_id))
    return None if found is None or not found.row.visible(actor.accounts) else found


def _standing(row: ScheduleRow, due_at: datetime | None) -> Standing:
    return shaped(
        Standing,
        row,
        next_due_at=due_at,
        ended=row.ended_at is not None,
        paused_at=row.paused_at if row.paused else None,
    )


def _entry(row: OccurrenceRow, ended: Mapping[UUID, RunOutcome]) -> OccurrenceView:
    return shaped(
        OccurrenceView,
        row,
        status=Status(row.status),
        job_id=row.subject if row.kind == "job" else None,
        payment_id=row.subject if row.kind == "payment" else None,
        notes=row.notes or [],
        outcome=None if row.subject is None else ended.get(row.subject),
    )
