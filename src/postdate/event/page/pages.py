"""Events: who did what, the newest first."""

from collections.abc import Sequence
from typing import Any, Final, Protocol
from uuid import UUID

import msgspec
from starlette.responses import Response

from postdate.console.page_request import ConsolePage, PageRequest
from postdate.console.render import account_named
from postdate.core import any_json
from postdate.event.spec.event import EventFilter, Sealed, like_patterns, visible, without_origin

PAGE: Final = 100
"""How many positions of the tenant's order a page scans, and the most events of one subject."""


class EventFilters(msgspec.Struct, frozen=True, kw_only=True):
    """The address of a list of events: those before a position, or all of one subject."""

    before: int | None = None
    subject: UUID | None = None


async def events_page(request: PageRequest) -> Response:
    """List events, the newest first."""
    query = request.query(EventFilters)
    await request.learn_names()
    if query.subject is not None:
        found = await subject_events(request, query.subject)
        return request.render(
            "events.html",
            events=found[::-1],
            currencies=await event_currencies(request, found),
            query=query,
            following=None,
        )
    last = await request.services.event.last(request.actor.tenant_id)
    before = last + 1 if query.before is None else query.before
    after = max(0, before - PAGE - 1)
    page = await request.services.event.page(
        request.actor.tenant_id, _filter(request, None), after=after, limit=PAGE
    )
    shown = [without_origin(event) for event in page.events if event.position < before]
    return request.render(
        "events.html",
        events=shown[::-1],
        currencies=await event_currencies(request, shown),
        query=query,
        following=request.next_page(before=after + 1) if after > 0 else None,
    )


async def subject_events(request: PageRequest, subject: UUID) -> list[Sealed]:
    """List what happened to one thing, in order."""
    page = await request.services.event.page(
        request.actor.tenant_id, _filter(request, subject), after=0, limit=PAGE
    )
    return [without_origin(event) for event in page.events]


class WithData(Protocol):
    """An event, or an entry of the audit log."""

    @property
    def data(self) -> Any:
        """Return what it says, as an object or as JSON."""


async def event_currencies(request: PageRequest, events: Sequence[WithData]) -> dict[str, str]:
    """Return the currencies of the accounts that events name."""
    said = (each.data for each in events if each.data)
    datas = (any_json.decode(each) if isinstance(each, str) else each for each in said)
    names = {name for each in datas if (name := account_named(each))}
    return await request.services.account.read.currencies(request.actor, names)


def _filter(request: PageRequest, subject: UUID | None) -> EventFilter:
    actor = request.actor
    return EventFilter(
        patterns=like_patterns(visible(actor, [])),
        subject=subject,
        accounts=None if actor.accounts is None else sorted(actor.accounts),
    )


PAGES: Final = (ConsolePage("/events", events_page, limited="filtered"),)
