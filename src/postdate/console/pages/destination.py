"""Destinations: where jobs go, and whether they are enabled."""

from typing import Final

import msgspec
from starlette.responses import Response

from postdate.console.page_request import ConsolePage, PageRequest
from postdate.model.tenant.identity import Scope

PAGE: Final = 50


class DestinationFilters(msgspec.Struct, frozen=True, kw_only=True):
    """The address of the list."""

    after: str = ""


async def destinations_page(request: PageRequest) -> Response:
    """List destinations by name."""
    query = request.query(DestinationFilters)
    found, following = await request.services.destination.read.page(
        request.actor.tenant_id, query.after, PAGE
    )
    return request.render(
        "destinations.html",
        destinations=found,
        query=query,
        following=request.next_page(after=following),
    )


PAGES: Final = (ConsolePage("/destinations", destinations_page, Scope.JOBS_READ),)
