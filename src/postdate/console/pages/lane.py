"""Lanes: what waits in each, and whether anything of it may start."""

from starlette.responses import Response

from postdate.console.page_request import Visit
from postdate.model.tenant.identity import Scope


async def lanes_page(visit: Visit) -> Response:
    """List lanes with their backlog."""
    visit.need(Scope.JOBS_READ)
    return visit.page("lanes.html", overview=await visit.services.overview.get(visit.who.tenant_id))
