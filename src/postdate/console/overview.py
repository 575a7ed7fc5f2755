"""The first page: problems by name, then numbers, then what is coming."""

from typing import Any

from starlette.responses import HTMLResponse, Response

from postdate.console.problem import problems
from postdate.console.visit import HEADERS, Visit
from postdate.model.errors import Code, refuse
from postdate.model.identity import Scope
from postdate.views.overview import DueChart, Slow


async def overview_page(visit: Visit) -> Response:
    """Show what needs somebody now, and what comes."""
    if not _whole(visit):
        return visit.page("partial.html")
    return visit.page("overview.html", **await _values(visit))


async def overview_live(visit: Visit) -> Response:
    """Give the same cells again; the page puts each in the place of its id."""
    if not _whole(visit):
        raise refuse(Code.FORBIDDEN, "Your key may not see the whole tenant.")
    return HTMLResponse(visit.fragment("_live.html", **await _values(visit)), headers=HEADERS)


def _whole(visit: Visit) -> bool:
    """Say whether the key may see the whole tenant, of which the overview tells."""
    who = visit.who
    return who.allows(Scope.JOBS_READ) and who.allows(Scope.PAYMENTS_READ) and who.accounts is None


async def _values(visit: Visit) -> dict[str, Any]:
    found = await visit.services.overview.get(visit.who.tenant_id)
    admin = visit.who.allows(Scope.ADMIN)
    nodes = await visit.services.node_views.page(visit.who.tenant_id) if admin else []
    return {
        "overview": found,
        "problems": problems(found, nodes, visit.now),
        "charts": {
            "hour": _chart(found.slow, found.slow.hour),
            "day": _chart(found.slow, found.slow.day),
        },
    }


def _chart(slow: Slow, due: DueChart) -> dict[str, list[int | None]]:
    begin = slow.unix_ms / 1000
    return {
        "x": [round(begin + slot * due.slot_seconds) for slot in range(len(due.jobs))],
        "jobs": list(due.jobs),
        "payments": list(due.payments),
    }
