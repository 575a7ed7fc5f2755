"""Events: read them in order, wait for them, or have them streamed."""

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any, Final
from uuid import UUID

import msgspec
from msgspec import Meta

from postdate.api.services import Services
from postdate.event.spec.event import (
    CloudEvent,
    EventFilter,
    EventPage,
    check_patterns,
    envelope,
    like_patterns,
    visible,
)
from postdate.http.endpoint import Call, Query, Reply
from postdate.http.page import DEFAULT_PAGE, MAX_PAGE, encode_cursor
from postdate.http.position import read_position
from postdate.http.routes import Routes
from postdate.words.error import Code

ROUTES: Final = Routes("events")

MAX_WAIT_SECONDS: Final = 30
STREAM_BEAT_SECONDS: Final = 3.0
"""How often an idle stream sends a comment and checks that its key is still valid."""

EVENT_STREAM: Final = "text/event-stream"


class EventQuery(Query, kw_only=True):
    """Which events, from where on, and how long to wait for the first."""

    after: Annotated[
        str | None,
        Meta(
            description="`next_cursor` of the previous page, or `now`; without it, the beginning."
        ),
    ] = None
    limit: Annotated[
        int, Meta(ge=1, le=MAX_PAGE, description="Maximum number of events to return.")
    ] = DEFAULT_PAGE
    types: Annotated[
        str | None,
        Meta(description="Comma-separated types: `payment.completed`, `payment.*`."),
    ] = None
    subject: Annotated[
        UUID | None, Meta(description="Only events of this job, payment, account or schedule.")
    ] = None
    wait_seconds: Annotated[
        float, Meta(ge=0, le=MAX_WAIT_SECONDS, description="How long to wait for the first event.")
    ] = 0


class EventList(msgspec.Struct, frozen=True):
    """Events in order, and where to go on: also when there are none yet."""

    events: list[CloudEvent]
    next_cursor: str


@ROUTES.add(
    "GET",
    "/events",
    "any",
    returns=EventList,
    errors=(Code.INVALID_CURSOR, Code.FORBIDDEN, Code.TOO_MANY_OPEN),
    max_seconds=MAX_WAIT_SECONDS + 10,
    limited="filtered",
)
async def list_events(call: Call[Services, Any, EventQuery]) -> Reply | EventList:
    """Read events in order, wait for them, or stream them.

    Each key sees the types that its scopes can read, and only events about its accounts if it is
    limited to some. With `Accept: text/event-stream` the answer is a stream; `Last-Event-ID`
    resumes it.
    """
    wanted = _filter(call)
    stream = EVENT_STREAM in (call.header("accept") or "")
    if stream or call.query.wait_seconds:
        call.hold_open()
    after = await _after(call, (call.header("last-event-id") or None) if stream else None)
    if stream:
        headers = {"content-type": EVENT_STREAM, "x-accel-buffering": "no"}
        return Reply(_stream(call, wanted, after), headers=headers)
    page = await _page(call, wanted, after)
    return EventList(
        [envelope(event, call.actor.tenant) for event in page.events],
        encode_cursor(page.position),
    )


def _filter(call: Call[Services, Any, EventQuery]) -> EventFilter:
    actor = call.actor
    types = check_patterns(call.query.types.split(",") if call.query.types else [])
    return EventFilter(
        patterns=like_patterns(visible(actor, types)),
        subject=call.query.subject,
        accounts=None if actor.accounts is None else sorted(actor.accounts),
    )


async def _after(call: Call[Services, Any, EventQuery], last_event_id: str | None) -> int:
    given = last_event_id or call.query.after
    if given is None:
        return 0
    position = read_position(given, "after")
    if position is None:
        return await call.services.event.last(call.actor.tenant_id)
    return position


async def _page(
    call: Call[Services, Any, EventQuery], wanted: EventFilter, after: int
) -> EventPage:
    """Read a page, waiting for the first event while the client and the server stay."""
    views, tenant_id, limit = call.services.event, call.actor.tenant_id, call.query.limit
    seconds = call.query.wait_seconds
    if not seconds:
        return await views.page(tenant_id, wanted, after=after, limit=limit)
    waiting = asyncio.create_task(
        views.wait(tenant_id, wanted, after=after, limit=limit, seconds=seconds)
    )
    return await _first(call, waiting) or EventPage([], after, more=False)


async def _first(
    call: Call[Services, Any, EventQuery], waiting: "asyncio.Task[EventPage]"
) -> EventPage | None:
    """Wait for a page, unless the client disconnects or the server stops first."""
    over = {
        asyncio.create_task(call.draining.wait()),
        asyncio.create_task(call.disconnected()),
    }
    try:
        await asyncio.wait({waiting, *over}, return_when=asyncio.FIRST_COMPLETED)
        return waiting.result() if waiting.done() else None
    finally:
        for left in (waiting, *over):
            left.cancel()
        await asyncio.gather(waiting, *over, return_exceptions=True)


async def _stream(
    call: Call[Services, Any, EventQuery], wanted: EventFilter, after: int
) -> AsyncIterator[bytes]:
    """Write server-sent events until the server stops or the key ends; clients reconnect."""
    views, actor = call.services.event, call.actor
    yield b"retry: 1000\n\n"
    while not call.draining.is_set():
        page = await views.wait(
            actor.tenant_id, wanted, after=after, limit=MAX_PAGE, seconds=STREAM_BEAT_SECONDS
        )
        if not await call.services.identities.alive(actor):
            return
        after = page.position
        messages = [_message(envelope(event, actor.tenant)) for event in page.events]
        yield b"".join(messages) or b": \n\n"


def _message(event: CloudEvent) -> bytes:
    cursor = encode_cursor(int(event.sequence)).encode()
    return b"id: " + cursor + b"\ndata: " + msgspec.json.encode(event) + b"\n\n"
