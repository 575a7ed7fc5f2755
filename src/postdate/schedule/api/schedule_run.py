"""Running schedules: pause, resume, trigger, backfill; coming and past occurrences."""

from datetime import datetime
from typing import Annotated, Any, Final
from uuid import UUID

import msgspec
from msgspec import Meta

from postdate.api.services import Services
from postdate.core.identity import Scope
from postdate.http.endpoint import Body, Call, Query, Reply, existing
from postdate.http.page import PageQuery, next_cursor
from postdate.http.routes import Routes
from postdate.intake.answer_once import run_once_per_key
from postdate.recurrence.rule import Status
from postdate.schedule.api.schedule import show_schedule
from postdate.schedule.change.run import Backfill, Triggered
from postdate.schedule.spec.preview import Preview
from postdate.schedule.spec.spec import MAX_PREVIEW, PREVIEW_DEFAULT, ScheduleView
from postdate.schedule.view import OccurrenceView
from postdate.words.error import Code

ROUTES: Final = Routes("schedules")

_ID: Final = "/schedules/{schedule_id:uuid}"


class SchedulePauseBody(Body, kw_only=True):
    """Why it is paused."""

    note: Annotated[str, Meta(max_length=500)] | None = None


class BackfillBody(Body, kw_only=True, rename={"begin": "from"}):
    """A range of the past, its end not included; without `dry_run: false` nothing is done."""

    begin: Annotated[datetime, Meta(tz=True)]
    until: Annotated[datetime, Meta(tz=True)]
    dry_run: bool = True


class PreviewQuery(Query):
    """How far ahead to search."""

    count: Annotated[int, Meta(ge=1, le=MAX_PREVIEW)] = PREVIEW_DEFAULT


class BookQuery(PageQuery, kw_only=True):
    """Which rows to list."""

    status: Status | None = None


class Book(msgspec.Struct, frozen=True, kw_only=True):
    """The results of occurrences, the newest first."""

    occurrences: list[OccurrenceView]
    next_cursor: str | None


@ROUTES.add("POST", f"{_ID}/pause", Scope.SCHEDULES_WRITE, limited="filtered")
async def pause_schedule(call: Call[Services, SchedulePauseBody, None]) -> ScheduleView:
    """Pause a schedule: its occurrences are skipped and recorded in the book.

    A preview still shows the occurrences of its rule.
    """
    note = call.body.note
    await call.services.schedule.change.pause(call.actor, call.uuid("schedule_id"), note)
    return await show_schedule(call)


@ROUTES.add("POST", f"{_ID}/resume", Scope.SCHEDULES_WRITE, limited="filtered")
async def resume_schedule(call: Call[Services, None, None]) -> ScheduleView:
    """Resume a schedule that is paused or set aside.

    It continues with the next occurrence; use a backfill for skipped ones.
    """
    await call.services.schedule.change.resume(call.actor, call.uuid("schedule_id"))
    return await show_schedule(call)


@ROUTES.add(
    "POST",
    f"{_ID}/trigger",
    Scope.SCHEDULES_WRITE,
    returns=Triggered,
    idempotency="optional",
    halted="new work",
    status=201,
    errors=(Code.INVALID_FIELD, Code.SECRET_KEY_MISSING),
    limited="filtered",
)
async def trigger_schedule(call: Call[Services, None, None]) -> Reply | msgspec.Struct:
    """Run a schedule once, now.

    This run is in addition to those of its rule.
    """
    actor, schedule_id, runs = call.actor, call.uuid("schedule_id"), call.services.schedule.run
    return await run_once_per_key(
        call,
        "schedule.trigger",
        lambda remember: runs.trigger(actor, schedule_id, call.traceparent, remember),
        lambda triggered: triggered,
    )


@ROUTES.add(
    "POST",
    f"{_ID}/backfill",
    Scope.SCHEDULES_WRITE,
    returns=Backfill,
    idempotency="optional",
    halted="new work",
    errors=(Code.SECRET_KEY_MISSING,),
    limited="filtered",
)
async def backfill_schedule(call: Call[Services, BackfillBody, None]) -> Reply | msgspec.Struct:
    """Run past occurrences that have not run; a dry run by default.

    For each occurrence in the range the answer says whether it runs, and if not, why.
    """
    actor, schedule_id, runs = call.actor, call.uuid("schedule_id"), call.services.schedule.run
    span, dry_run = (call.body.begin, call.body.until), call.body.dry_run
    return await run_once_per_key(
        call,
        "schedule.backfill",
        lambda remember: runs.backfill(
            actor, schedule_id, span, call.traceparent, dry_run=dry_run, remember=remember
        ),
        lambda done: done,
        status=200,
    )


@ROUTES.add(
    "GET", f"{_ID}/preview", Scope.SCHEDULES_READ, errors=(Code.TOO_COSTLY,), limited="filtered"
)
async def preview_schedule(call: Call[Services, None, PreviewQuery]) -> Preview:
    """Preview the next occurrences of a schedule.

    Nothing is created. Closed days, clock changes and jitter are taken into account.
    """
    schedule_id, read = call.uuid("schedule_id"), call.services.schedule.read
    asked = read.preview(call.actor, schedule_id, call.query.count)
    return existing(await call.while_connected(asked), "schedule", schedule_id)


@ROUTES.add("GET", f"{_ID}/occurrences", Scope.SCHEDULES_READ, limited="filtered")
async def list_schedule_occurrences(call: Call[Services, Any, BookQuery]) -> Book:
    """List the book of a schedule: the result of each occurrence.

    It includes skipped, missed and merged occurrences, with the reason.
    """
    schedule_id, query = call.uuid("schedule_id"), call.query
    before = query.start(UUID, None)
    found = existing(
        await call.services.schedule.read.book(
            call.actor, schedule_id, before, status=query.status, limit=query.limit
        ),
        "schedule",
        schedule_id,
    )
    rows, more = found
    return Book(occurrences=rows, next_cursor=next_cursor(more))
