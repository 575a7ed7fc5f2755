"""Schedules: create, show, list, change, delete."""

from typing import Annotated, Any, Final
from uuid import UUID

import msgspec
from msgspec import Meta

from postdate.api.services import Services
from postdate.core.identity import Scope
from postdate.http.endpoint import Call, Reply, existing
from postdate.http.page import PageQuery, next_cursor
from postdate.http.routes import Routes
from postdate.intake.answer_once import reply
from postdate.schedule.spec.preview import Preview
from postdate.schedule.spec.spec import (
    AcceptedSchedule,
    PreviewSpec,
    ScheduleName,
    SchedulePatch,
    ScheduleSpec,
    ScheduleView,
    accepted,
)
from postdate.words.error import Code

ROUTES: Final = Routes("schedules")

_REFUSALS: Final = (
    Code.SELF_PAYMENT,
    Code.UNKNOWN_ACCOUNT,
    Code.UNKNOWN_DESTINATION,
    Code.TARGET_NOT_ALLOWED,
    Code.PAYLOAD_TOO_LARGE,
    Code.SECRET_KEY_MISSING,
    Code.TOO_COSTLY,
)


class ScheduleQuery(PageQuery, kw_only=True):
    """Which schedules to list."""

    missed: Annotated[
        bool, Meta(description="Only schedules that have missed an occurrence (`last_missed_at`).")
    ] = False
    set_aside: Annotated[
        bool, Meta(description="Only schedules that cannot be expanded (`set_aside_error`).")
    ] = False
    name: Annotated[
        ScheduleName | None, Meta(description="Only schedules of exactly this name.")
    ] = None


class ScheduleList(msgspec.Struct, frozen=True, kw_only=True):
    """A page of schedules, the oldest first."""

    schedules: list[ScheduleView]
    next_cursor: str | None


@ROUTES.add(
    "POST",
    "/schedules",
    Scope.SCHEDULES_WRITE,
    returns=AcceptedSchedule,
    halted="new work",
    status=201,
    idempotency="optional",
    errors=(*_REFUSALS, Code.QUOTA_EXCEEDED),
    limited="filtered",
)
async def create_schedule(call: Call[Services, ScheduleSpec, None]) -> Reply:
    """Create a schedule.

    The key also needs the scope that the template would need by itself.
    """
    answer = await call.services.schedule.change.create(
        call.actor, call.body, call.idempotency_key, call.traceparent
    )
    return reply(answer, call.request_id)


@ROUTES.add("GET", "/schedules", Scope.SCHEDULES_READ, limited="filtered")
async def list_schedules(call: Call[Services, None, ScheduleQuery]) -> ScheduleList:
    """List schedules.

    `missed` and `set_aside` find schedules that need attention.
    """
    after = call.query.start(UUID, None)
    shown, more = await call.services.schedule.read.page(
        call.actor,
        after,
        call.query.limit,
        missed=call.query.missed,
        set_aside=call.query.set_aside,
        name=call.query.name,
    )
    return ScheduleList(schedules=shown, next_cursor=next_cursor(more))


@ROUTES.add("GET", "/schedules/{schedule_id:uuid}", Scope.SCHEDULES_READ, limited="filtered")
async def show_schedule(call: Call[Services, Any, Any]) -> ScheduleView:
    """Show a schedule.

    With its rule in plain English and the next occurrence.
    """
    schedule_id = call.uuid("schedule_id")
    return existing(
        await call.services.schedule.read.find(call.actor, schedule_id), "schedule", schedule_id
    )


@ROUTES.add("POST", "/schedules/preview", Scope.SCHEDULES_READ, errors=_REFUSALS, limited="served")
async def preview_unsaved_schedule(call: Call[Services, PreviewSpec, None]) -> Preview:
    """Preview a schedule without creating it.

    A template is checked as if it were created, and needs the same scopes.
    """
    asked = call.services.schedule.change.preview(call.actor, call.body)
    return await call.while_connected(asked)


@ROUTES.add(
    "PATCH",
    "/schedules/{schedule_id:uuid}",
    Scope.SCHEDULES_WRITE,
    errors=(*_REFUSALS,),
    limited="filtered",
)
async def change_schedule(call: Call[Services, SchedulePatch, None]) -> AcceptedSchedule:
    """Change a schedule; occurrences already due keep the previous version.

    Every change creates a version; the book shows the version of each occurrence.
    """
    warned = await call.services.schedule.change.change(
        call.actor, call.uuid("schedule_id"), call.body, call.traceparent
    )
    return accepted(await show_schedule(call), warned)


@ROUTES.add("DELETE", "/schedules/{schedule_id:uuid}", Scope.SCHEDULES_WRITE, limited="filtered")
async def delete_schedule(call: Call[Services, None, None]) -> Reply:
    """Delete a schedule; jobs and payments that it created continue.

    It has no further occurrences and cannot be resumed. Its book can still be read.
    """
    await call.services.schedule.change.delete(call.actor, call.uuid("schedule_id"))
    return Reply()
