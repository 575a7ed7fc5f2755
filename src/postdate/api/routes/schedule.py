"""Schedules: create, show, list, change, delete."""

from typing import Annotated, Any, Final
from uuid import UUID

import msgspec
from msgspec import Meta

from postdate.api.http.endpoint import AnyEndpoint, Call, Endpoint, Reply, existing
from postdate.api.http.page import PageQuery, next_cursor
from postdate.api.idempotency import reply
from postdate.api.services import Services
from postdate.model.error import Code
from postdate.model.schedule.preview import Preview
from postdate.model.schedule.spec import (
    AcceptedSchedule,
    PreviewSpec,
    SchedulePatch,
    ScheduleSpec,
    ScheduleView,
    accepted,
)
from postdate.model.tenant.identity import Scope

_REFUSALS: Final = (
    Code.FORBIDDEN,
    Code.SELF_PAYMENT,
    Code.UNKNOWN_ACCOUNT,
    Code.UNKNOWN_DESTINATION,
    Code.TARGET_NOT_ALLOWED,
    Code.PAYLOAD_TOO_LARGE,
    Code.UNAVAILABLE,
)


class ScheduleQuery(PageQuery, kw_only=True):
    """Which schedules to list."""

    missed: Annotated[
        bool, Meta(description="Only those that have missed an occurrence; `last_missed_at`.")
    ] = False
    set_aside: Annotated[
        bool, Meta(description="Only those that cannot be expanded; `set_aside_error`.")
    ] = False


class ScheduleList(msgspec.Struct, frozen=True, kw_only=True):
    """A page of schedules, the oldest first."""

    schedules: list[ScheduleView]
    next_cursor: str | None


async def create_schedule(call: Call[Services, ScheduleSpec, None]) -> Reply:
    """Accept a schedule."""
    answer = await call.services.schedule.change.create(
        call.actor, call.body, call.idempotency_key, call.traceparent
    )
    return reply(answer, call.request_id)


async def list_schedules(call: Call[Services, None, ScheduleQuery]) -> ScheduleList:
    """List the tenant's schedules."""
    after = call.query.start(UUID, None)
    shown, more = await call.services.schedule.read.page(
        call.actor,
        after,
        call.query.limit,
        missed=call.query.missed,
        set_aside=call.query.set_aside,
    )
    return ScheduleList(schedules=shown, next_cursor=next_cursor(more))


async def show_schedule(call: Call[Services, Any, Any]) -> ScheduleView:
    """Show one schedule."""
    schedule_id = call.uuid("schedule_id")
    return existing(
        await call.services.schedule.read.find(call.actor, schedule_id), "schedule", schedule_id
    )


async def preview_unsaved_schedule(call: Call[Services, PreviewSpec, None]) -> Preview:
    """Show what a schedule would do, without creating it."""
    return await call.services.schedule.change.preview(call.actor, call.body)


async def change_schedule(call: Call[Services, SchedulePatch, None]) -> AcceptedSchedule:
    """Create a new version, which applies to every occurrence that is not due yet."""
    warned = await call.services.schedule.change.change(
        call.actor, call.uuid("schedule_id"), call.body, call.traceparent
    )
    return accepted(await show_schedule(call), warned)


async def delete_schedule(call: Call[Services, None, None]) -> Reply:
    """End a schedule."""
    await call.services.schedule.change.delete(call.actor, call.uuid("schedule_id"))
    return Reply()


ENDPOINTS: Final[list[AnyEndpoint]] = [
    Endpoint(
        method="POST",
        path="/schedules",
        halted="new work",
        handler=create_schedule,
        scope=Scope.SCHEDULES_WRITE,
        body=ScheduleSpec,
        returns=AcceptedSchedule,
        status=201,
        idempotency="optional",
        errors=(*_REFUSALS, Code.IDEMPOTENCY_KEY_REUSED, Code.QUOTA_EXCEEDED),
        summary="Create a schedule",
        description="The key also needs the scope that its template would need by itself.",
        tag="schedules",
    ),
    Endpoint(
        method="POST",
        path="/schedules/preview",
        handler=preview_unsaved_schedule,
        scope=Scope.SCHEDULES_READ,
        body=PreviewSpec,
        returns=Preview,
        errors=_REFUSALS,
        summary="Show what a schedule would do, without creating it",
        description="A template is checked as if it were created, and needs the same scopes.",
        tag="schedules",
    ),
    Endpoint(
        method="GET",
        path="/schedules",
        handler=list_schedules,
        scope=Scope.SCHEDULES_READ,
        query=ScheduleQuery,
        returns=ScheduleList,
        errors=(Code.INVALID_CURSOR,),
        summary="List schedules",
        description="`missed` and `set_aside` find those that need a look.",
        tag="schedules",
    ),
    Endpoint(
        method="GET",
        path="/schedules/{schedule_id:uuid}",
        handler=show_schedule,
        scope=Scope.SCHEDULES_READ,
        returns=ScheduleView,
        errors=(Code.NOT_FOUND,),
        summary="Show a schedule",
        description="With its rule in plain English and the next occurrence.",
        tag="schedules",
    ),
    Endpoint(
        method="PATCH",
        path="/schedules/{schedule_id:uuid}",
        handler=change_schedule,
        scope=Scope.SCHEDULES_WRITE,
        body=SchedulePatch,
        returns=AcceptedSchedule,
        errors=(*_REFUSALS, Code.NOT_FOUND),
        summary="Change a schedule; what is due already is left to the version before",
        description="Every change is a version of its own; the book says which version made what.",
        tag="schedules",
    ),
    Endpoint(
        method="DELETE",
        path="/schedules/{schedule_id:uuid}",
        handler=delete_schedule,
        scope=Scope.SCHEDULES_WRITE,
        returns=None,
        status=204,
        errors=(Code.NOT_FOUND,),
        summary="Delete a schedule; what it has made goes on, and its book can be read",
        description="The schedule ends: it has no further occurrence and cannot be resumed.",
        tag="schedules",
    ),
]
