"""Nodes of the cluster, for its operators: who is alive, and how the latest calls of each went."""

from typing import Final

from starlette.responses import Response

from postdate.console.page_request import ConsolePage, PageRequest
from postdate.core.identity import Scope
from postdate.http.endpoint import existing
from postdate.monitor.page.overview import cluster_problems
from postdate.words.error import Code, refuse


async def nodes_page(request: PageRequest) -> Response:
    """List the nodes, and what is wrong with the cluster."""
    _check_operator(request)
    return request.render(
        "nodes.html",
        nodes=await request.services.node.page(),
        problems=await cluster_problems(request),
    )


async def node_page(request: PageRequest) -> Response:
    """Show one node and its latest calls."""
    _check_operator(request)
    node_id = request.uuid("node_id")
    return request.render(
        "node.html",
        node=existing(await request.services.node.find(node_id), "node", node_id),
        calls=await request.services.node.calls(node_id),
    )


def _check_operator(request: PageRequest) -> None:
    if not request.operator:
        tenant = request.services.operator_tenant
        raise refuse(Code.FORBIDDEN, f"Nodes are shown to admins of the tenant {tenant} only.")


PAGES: Final = (
    ConsolePage("/nodes", nodes_page, Scope.ADMIN),
    ConsolePage("/nodes/{node_id:uuid}", node_page, Scope.ADMIN),
)
