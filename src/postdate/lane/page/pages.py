"""Lanes: their backlog, and whether they are paused."""

from typing import Final

from starlette.responses import Response

from postdate.console.page_request import ConsolePage, PageRequest
from postdate.core.identity import Scope

SERVED_BY: Final = {"pull": "workers", "push": "Postdate"}
"""Who executes the jobs of a lane."""


async def lanes_page(request: PageRequest) -> Response:
    """List lanes with their backlog."""
    await request.learn_names()
    return request.render(
        "lanes.html", overview=await request.services.overview.get(request.actor.tenant_id)
    )


PAGES: Final = (ConsolePage("/lanes", lanes_page, Scope.JOBS_READ),)
