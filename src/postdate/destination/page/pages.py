"""Destinations: where jobs go, and whether they are enabled."""

from typing import Final

import msgspec
from starlette.responses import Response

from postdate.console.page_request import ConsolePage, PageRequest
from postdate.core.identity import Scope
from postdate.http.endpoint import existing

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
        calls=await request.services.destination.read.calls_of(
            request.actor.tenant_id, [one.name for one in found]
        ),
        query=query,
        following=request.next_page(after=following),
    )


async def destination_page(request: PageRequest) -> Response:
    """Show one destination: how it is set, how its latest calls went, its jobs that failed."""
    name, tenant_id = request.param("name"), request.actor.tenant_id
    views = request.services.destination.read
    await request.learn_names(nodes=True)
    return request.render(
        "destination.html",
        destination=existing(await views.find(tenant_id, name), "destination", name),
        calls=await views.calls(tenant_id, name),
        waiting=await request.services.job.read.waiting_at(tenant_id, name),
    )


PAGES: Final = (
    ConsolePage("/destinations", destinations_page, Scope.JOBS_READ),
    ConsolePage("/destinations/{name}", destination_page, Scope.JOBS_READ),
)
