"""Destinations: where jobs go, and whether they are let through."""

from typing import Final

import msgspec
from starlette.responses import Response

from postdate.console.page_request import Visit, further, stripped
from postdate.model.tenant.identity import Scope

PAGE: Final = 50


class DestinationsQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The address of the list."""

    after: str = ""


async def destinations_page(visit: Visit) -> Response:
    """List destinations by name."""
    visit.need(Scope.JOBS_READ)
    if (shorter := stripped(visit.request)) is not None:
        return shorter
    query = visit.query(DestinationsQuery)
    found, following = await visit.services.destination_views.page(
        visit.who.tenant_id, query.after, PAGE
    )
    return visit.page(
        "destinations.html",
        destinations=found,
        query=query,
        following=following and further(visit.request, after=following),
    )
