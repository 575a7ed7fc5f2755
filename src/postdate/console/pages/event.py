"""Events: who did what, the newest first."""

from typing import Final
from uuid import UUID

import msgspec
from starlette.responses import Response

from postdate.console.page_request import Visit, further, stripped
from postdate.model.event.event import Sealed, like, visible
from postdate.views.event import EventFilter

PAGE: Final = 100
"""How many positions of the tenant's order a page looks at, and events of one subject at most."""


class EventsQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The address of a list of events: those before a position, or all of one subject."""

    before: int | None = None
    subject: UUID | None = None


async def events_page(visit: Visit) -> Response:
    """List events, the newest first."""
    if (shorter := stripped(visit.request)) is not None:
        return shorter
    query = visit.query(EventsQuery)
    if query.subject is not None:
        found = await subject_events(visit, query.subject)
        return visit.page("events.html", events=found[::-1], query=query, following=None)
    last = await visit.services.event_views.last(visit.who.tenant_id)
    before = last + 1 if query.before is None else query.before
    after = max(0, before - PAGE - 1)
    page = await visit.services.event_views.page(
        visit.who.tenant_id, _filter(visit, None), after=after, limit=PAGE
    )
    shown = [event for event in page.events if event.position < before]
    return visit.page(
        "events.html",
        events=shown[::-1],
        query=query,
        following=further(visit.request, before=after + 1) if after > 0 else None,
    )


async def subject_events(visit: Visit, subject: UUID) -> list[Sealed]:
    """List what happened to one thing, in order."""
    page = await visit.services.event_views.page(
        visit.who.tenant_id, _filter(visit, subject), after=0, limit=PAGE
    )
    return page.events


def _filter(visit: Visit, subject: UUID | None) -> EventFilter:
    who = visit.who
    return EventFilter(
        patterns=like(visible(who, [])),
        subject=subject,
        accounts=None if who.accounts is None else sorted(who.accounts),
    )
