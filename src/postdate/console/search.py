"""Paste any id: a payment, a job or an account."""

from uuid import UUID

import msgspec
from starlette.responses import Response

from postdate.console.visit import Visit, redirect
from postdate.model.identity import Scope


class FindQuery(msgspec.Struct, frozen=True, kw_only=True):
    """What was typed."""

    q: str = ""


async def find_page(visit: Visit) -> Response:
    """Go where the id leads, or say that it leads nowhere."""
    wanted = visit.query(FindQuery).q.strip()
    found = await _place(visit, wanted)
    return (
        visit.page("find.html", wanted=wanted, http_status=404)
        if found is None
        else redirect(found)
    )


async def _place(visit: Visit, wanted: str) -> str | None:
    services = visit.services
    payments, jobs = visit.who.allows(Scope.PAYMENTS_READ), visit.who.allows(Scope.JOBS_READ)
    try:
        identifier = UUID(wanted)
    except ValueError:
        known = payments and await services.account_views.get(visit.who, wanted)
        return f"/accounts/{known.account_id}" if known else None
    if payments and await services.payment_views.get(visit.who, identifier):
        return f"/payments/{identifier}"
    if jobs and await services.job_views.find(visit.who.tenant_id, identifier):
        return f"/jobs/{identifier}"
    return None
