"""Business calendars: the days on which schedules that follow them do not run."""

from datetime import date, datetime
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from postdate.api.services import Services
from postdate.core.identity import Scope
from postdate.http.endpoint import Body, Call, Reply, existing
from postdate.http.page import PageQuery, next_cursor
from postdate.http.routes import Routes
from postdate.intake.answer_once import run_once_per_key
from postdate.recurrence.calendar import Calendar, Weekday
from postdate.schedule.spec.spec import MAX_HOLIDAYS

ROUTES: Final = Routes("calendars")


class CalendarBody(Body, kw_only=True):
    """A calendar; one of the same name is replaced."""

    name: Annotated[str, Meta(min_length=1, max_length=63)]
    holidays: Annotated[list[date], Meta(max_length=MAX_HOLIDAYS)]
    weekend: Annotated[
        list[Weekday], Meta(max_length=7, description="Closed days of the week; 1 is Monday.")
    ] = msgspec.field(default_factory=lambda: [6, 7])


class CalendarView(msgspec.Struct, frozen=True, kw_only=True):
    """A calendar."""

    name: str
    weekend: list[int]
    holidays: list[date]
    changed_at: datetime


class CalendarList(msgspec.Struct, frozen=True, kw_only=True):
    """A page of calendars, by name."""

    calendars: list[CalendarView]
    next_cursor: str | None


@ROUTES.add(
    "POST",
    "/calendars",
    Scope.SCHEDULES_WRITE,
    returns=CalendarView,
    idempotency="optional",
    status=201,
)
async def put_calendar(call: Call[Services, CalendarBody, None]) -> Reply | msgspec.Struct:
    """Upload a business calendar; schedules that use it are recomputed.

    The next occurrences move immediately if a day has opened or closed.
    """
    body = call.body
    calendar = Calendar(body.name, frozenset(body.holidays), frozenset(body.weekend))
    actor, calendars = call.actor, call.services.schedule.calendar
    return await run_once_per_key(
        call, "calendar", lambda remember: calendars.put(actor, calendar, remember), _view
    )


def _view(row: Any) -> CalendarView:
    return msgspec.convert(row, CalendarView, from_attributes=True)


@ROUTES.add("GET", "/calendars/{name}", Scope.SCHEDULES_READ, limited="served")
async def show_calendar(call: Call[Services, None, None]) -> CalendarView:
    """Show a business calendar.

    Its holidays and its weekend.
    """
    name = call.text("name")
    row = existing(
        await call.services.schedule.read.calendar(call.actor.tenant_id, name), "calendar", name
    )
    return _view(row)


@ROUTES.add("GET", "/calendars", Scope.SCHEDULES_READ, limited="served")
async def list_calendars(call: Call[Services, None, PageQuery]) -> CalendarList:
    """List business calendars.

    By name.
    """
    after = call.query.start(str, "")
    rows, more = await call.services.schedule.read.calendars(
        call.actor.tenant_id, after, call.query.limit
    )
    shown = [_view(row) for row in rows]
    return CalendarList(calendars=shown, next_cursor=next_cursor(more))


@ROUTES.add(
    "DELETE",
    "/calendars/{name}",
    Scope.SCHEDULES_WRITE,
)
async def delete_calendar(call: Call[Services, None, None]) -> Reply:
    """Delete a business calendar that no schedule uses.

    While a schedule uses it, the answer is 409.
    """
    await call.services.schedule.calendar.delete(call.actor, call.text("name"))
    return Reply()
