"""Nodes: who works here, and who has fallen silent."""

from starlette.responses import Response

from postdate.console.visit import Visit
from postdate.model.identity import Scope


async def nodes_page(visit: Visit) -> Response:
    """List the nodes that have not signed off."""
    visit.need(Scope.ADMIN)
    return visit.page("nodes.html", nodes=await visit.services.node_views.page(visit.who.tenant_id))
