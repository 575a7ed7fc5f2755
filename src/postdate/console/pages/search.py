"""Paste anything: an id, an account, an idempotency key, a lane, an amount."""

from collections.abc import AsyncIterator
from typing import Final, NamedTuple
from uuid import UUID

import msgspec
from starlette.responses import HTMLResponse, Response

from postdate.console.page_request import HEADERS, Visit, redirect
from postdate.model.payment.money import AMOUNT_MOST
from postdate.model.tenant.identity import Scope

TEXT_MOST: Final = 255
"""No id, name or key is longer."""


class FindQuery(msgspec.Struct, frozen=True, kw_only=True):
    """What was typed."""

    q: str = ""


class Hit(NamedTuple):
    """Something that was found, and where it is shown."""

    kind: str
    name: str
    link: str
    certain: bool = True
    """Whether it exists; an amount is only looked for when somebody follows the link."""


async def find_page(visit: Visit) -> Response:
    """Go where the text leads if it leads to one place, or show where it may lead."""
    wanted = visit.query(FindQuery).q.strip()
    hits = await _hits(visit, wanted)
    certain = [hit for hit in hits if hit.certain]
    if len(certain) == 1 or (len(hits) == 1 and not certain):
        return redirect((certain or hits)[0].link)
    return visit.page("find.html", wanted=wanted, hits=hits, http_status=200 if hits else 404)


async def find_peek(visit: Visit) -> Response:
    """Give what the text leads to while it is typed."""
    wanted = visit.query(FindQuery).q.strip()
    hits = await _hits(visit, wanted)
    return HTMLResponse(visit.fragment("_hits.html", wanted=wanted, hits=hits), headers=HEADERS)


async def _hits(visit: Visit, wanted: str) -> list[Hit]:
    if not wanted or len(wanted) > TEXT_MOST or not wanted.isprintable():
        return []
    try:
        found = _by_id(visit, UUID(wanted))
    except ValueError:
        found = _by_name(visit, wanted)
    return [hit async for hit in found]


async def _by_id(visit: Visit, identifier: UUID) -> AsyncIterator[Hit]:
    who, services, text = visit.who, visit.services, str(identifier)
    if who.allows(Scope.PAYMENTS_READ) and await services.payment_views.get(who, identifier):
        yield Hit("payment", text, f"/payments/{text}")
    if who.allows(Scope.JOBS_READ) and await services.job_views.find(who.tenant_id, identifier):
        yield Hit("job", text, f"/jobs/{text}")
    if who.allows(Scope.SCHEDULES_READ) and await services.schedule_views.find(who, identifier):
        yield Hit("schedule", text, f"/schedules/{text}")
    async for hit in _by_name(visit, text):
        yield hit
    if who.allows(Scope.ADMIN):
        yield Hit("decisions by this key", text, f"/audit?actor={text}", certain=False)
        yield Hit("events about it", text, f"/events?subject={text}", certain=False)


async def _by_name(visit: Visit, wanted: str) -> AsyncIterator[Hit]:
    who, services = visit.who, visit.services
    if who.allows(Scope.PAYMENTS_READ) and await services.account_views.get(who, wanted):
        yield Hit("account", wanted, f"/accounts/{wanted}")
    for made in await services.find_views.under_key(who.tenant_id, wanted):
        if await _visible(visit, made.kind, made.subject):
            yield Hit(f"{made.kind} by its key", wanted, f"/{made.kind}s/{made.subject}")
    if who.allows(Scope.JOBS_READ) and wanted in services.lane_names(who.tenant_id):
        yield Hit("lane", wanted, f"/jobs?lane={wanted}")
    amount = wanted.replace(",", "").replace("_", "")
    if amount.isdecimal() and 0 < int(amount) <= AMOUNT_MOST and who.allows(Scope.PAYMENTS_READ):
        link = f"/payments?least={int(amount)}&most={int(amount)}"
        yield Hit("payments of this amount", f"{int(amount):,}", link, certain=False)


async def _visible(visit: Visit, kind: str, subject: UUID) -> bool:
    """Say whether the key may see it: an idempotency key says nothing about rights."""
    who, services = visit.who, visit.services
    match kind:
        case "payment":
            allowed = who.allows(Scope.PAYMENTS_READ)
            return allowed and await services.payment_views.get(who, subject) is not None
        case "job":
            return who.allows(Scope.JOBS_READ)
        case _:
            allowed = who.allows(Scope.SCHEDULES_READ)
            return allowed and await services.schedule_views.find(who, subject) is not None
