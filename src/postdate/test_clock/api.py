"""The test clock of a tenant in test mode: read it, advance it, read what happened."""

from datetime import datetime
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from postdate.api.services import Services
from postdate.core.field import Instant
from postdate.core.identity import Scope
from postdate.core.shape import shaped
from postdate.core.test_clock import AdvanceEntry, parse_duration
from postdate.http.endpoint import Body, Call
from postdate.http.page import MAX_PAGE, PageQuery, next_cursor
from postdate.http.routes import Routes
from postdate.test_clock.change.test_clock import AdvanceOrder
from postdate.test_clock.view import TestClockView
from postdate.words.error import Code

ROUTES: Final = Routes("test clock")

ADVANCE_SECONDS: Final = 60.0
"""The longest that a request to advance takes; the clock stops earlier, at a whole step."""


class AdvanceBody(Body, kw_only=True):
    """How far to advance; with neither, an interrupted advance is continued."""

    by: Annotated[
        Annotated[str, Meta(max_length=40)] | None,
        Meta(description="A duration: `90s`, `15m`, `12h`, `30d`, `2w`, `1d12h`."),
    ] = None
    to: Annotated[
        Instant | None, Meta(description="An instant, not before the clock's current time.")
    ] = None


class ClockEntryView(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened: `type` is the type of its event, if there is one."""

    number: int
    at: datetime
    type: str
    id: str
    outcome: dict[str, Any]


class AdvanceView(msgspec.Struct, frozen=True, kw_only=True):
    """How far the clock has come, and the first entries of what happened meanwhile.

    `finished` is false where the time of one request was not enough: send an empty body to go on.
    """

    at: datetime
    target: datetime
    finished: bool
    advance: int
    entries: list[ClockEntryView]
    next_cursor: str | None


class ClockEntryList(msgspec.Struct, frozen=True, kw_only=True):
    """A page of what happened, in order."""

    entries: list[ClockEntryView]
    next_cursor: str | None


class ClockEntryQuery(PageQuery):
    """Which entries."""

    advance: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(description="Only entries of the advance with this number."),
    ] = None


class ClockEntryCursor(msgspec.Struct, frozen=True, array_like=True):
    """Where a page of entries begins: after an entry, within an advance or all of them."""

    after: int
    advance: int | None


@ROUTES.add("GET", "/test-clock", "any", errors=(Code.NOT_IN_TEST_MODE,), limited="served")
async def get_test_clock(call: Call[Services, None, None]) -> TestClockView:
    """Read the test clock.

    What the clock of a tenant in test mode shows, and how far an advance that is not finished was
    going.
    """
    return await call.services.test_clock.read.get(call.actor.tenant_id)


@ROUTES.add(
    "POST",
    "/test-clock/advance",
    Scope.ADMIN,
    idempotency="optional",
    halted="served",
    max_seconds=ADVANCE_SECONDS,
    errors=(Code.NOT_IN_TEST_MODE, Code.CLOCK_ADVANCING, Code.ADVANCE_UNFINISHED),
)
async def advance_test_clock(call: Call[Services, AdvanceBody, None]) -> AdvanceView:
    """Advance the test clock, and run what comes due.

    Goes from one due instant to the next, and does what is due at each, in order: ends of halts and
    approvals, schedules, payments, jobs, deliveries of events. Webhooks and messages are really
    sent. The same `Idempotency-Key` continues or repeats the answer; it never advances twice.
    Refused for every live tenant.
    """
    by = None if call.body.by is None else parse_duration(call.body.by)
    order = AdvanceOrder(by, call.body.to, call.idempotency_key)
    tenant_id, clocks = call.actor.tenant_id, call.services.test_clock
    done = await clocks.change.advance(tenant_id, order)
    rows, following = await clocks.read.entries(tenant_id, done.first, done.advance, MAX_PAGE)
    cursor = _cursor(following, done.advance)
    return shaped(AdvanceView, done, entries=_shown(rows), next_cursor=cursor)


@ROUTES.add("GET", "/test-clock/entries", Scope.ADMIN, errors=(Code.NOT_IN_TEST_MODE,))
async def list_test_clock_entries(call: Call[Services, None, ClockEntryQuery]) -> ClockEntryList:
    """List what happened while the test clock was advanced.

    In order, of one advance or of all. Beside the tenant's events there are `job.ready` (a worker's
    job came due), `lease.expired`, `subscription.delivered` and `subscription.failed`.
    """
    begin = call.query.start(ClockEntryCursor, ClockEntryCursor(0, call.query.advance))
    rows, following = await call.services.test_clock.read.entries(
        call.actor.tenant_id, begin.after, begin.advance, call.query.limit
    )
    return ClockEntryList(entries=_shown(rows), next_cursor=_cursor(following, begin.advance))


def _shown(rows: list[AdvanceEntry]) -> list[ClockEntryView]:
    return [shaped(ClockEntryView, row, id=row.subject) for row in rows]


def _cursor(following: int | None, advance: int | None) -> str | None:
    return next_cursor(None if following is None else ClockEntryCursor(following, advance))
