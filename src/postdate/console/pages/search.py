"""Search: by id, account, idempotency key, lane or amount."""

from collections.abc import AsyncIterator
from typing import Final, NamedTuple
from uuid import UUID

import msgspec
from starlette.responses import HTMLResponse, Response

from postdate.console.page_request import HEADERS, ConsolePage, PageRequest, redirect
from postdate.model.payment.money import MAX_AMOUNT
from postdate.model.tenant.identity import Scope

MAX_TEXT: Final = 255
"""No id, name or key is longer."""


class SearchText(msgspec.Struct, frozen=True, kw_only=True):
    """What was typed."""

    q: str = ""


class SearchHit(NamedTuple):
    """Something that was found, and where it is shown."""

    kind: str
    name: str
    link: str
    certain: bool = True
    """Whether it exists; an amount is only looked for when somebody follows the link."""


async def find_page(request: PageRequest) -> Response:
    """Redirect to the only match, or list all matches."""
    wanted = request.query(SearchText).q.strip()
    hits = await _hits(request, wanted)
    certain = [hit for hit in hits if hit.certain]
    if len(certain) == 1 or (len(hits) == 1 and not certain):
        return redirect((certain or hits)[0].link)
    return request.render("find.html", wanted=wanted, hits=hits, http_status=200 if hits else 404)


async def find_peek(request: PageRequest) -> Response:
    """Return the matches while the text is typed."""
    wanted = request.query(SearchText).q.strip()
    hits = await _hits(request, wanted)
    return HTMLResponse(request.fragment("_hits.html", wanted=wanted, hits=hits), headers=HEADERS)


async def _hits(request: PageRequest, wanted: str) -> list[SearchHit]:
    if not wanted or len(wanted) > MAX_TEXT or not wanted.isprintable():
        return []
    try:
        found = _by_id(request, UUID(wanted))
    except ValueError:
        found = _by_name(request, wanted)
    return [hit async for hit in found]


async def _by_id(request: PageRequest, identifier: UUID) -> AsyncIterator[SearchHit]:
    actor, services, text = request.actor, request.services, str(identifier)
    if actor.allows(Scope.PAYMENTS_READ) and await services.payment.read.find(actor, identifier):
        yield SearchHit("payment", text, f"/payments/{text}")
    if actor.allows(Scope.JOBS_READ) and await services.job.read.find(actor.tenant_id, identifier):
        yield SearchHit("job", text, f"/jobs/{text}")
    if actor.allows(Scope.SCHEDULES_READ) and await services.schedule.read.find(actor, identifier):
        yield SearchHit("schedule", text, f"/schedules/{text}")
    async for hit in _by_name(request, text):
        yield hit
    if actor.allows(Scope.ADMIN):
        yield SearchHit("decisions by this key", text, f"/audit?actor={text}", certain=False)
        yield SearchHit("events about it", text, f"/events?subject={text}", certain=False)


async def _by_name(request: PageRequest, wanted: str) -> AsyncIterator[SearchHit]:
    actor, services = request.actor, request.services
    if actor.allows(Scope.PAYMENTS_READ) and await services.account.read.find(actor, wanted):
        yield SearchHit("account", wanted, f"/accounts/{wanted}")
    for made in await services.search.under_key(actor.tenant_id, wanted):
        if await _visible(request, made.kind, made.subject):
            yield SearchHit(f"{made.kind} by its key", wanted, f"/{made.kind}s/{made.subject}")
    if actor.allows(Scope.JOBS_READ) and services.search.has_lane(actor.tenant_id, wanted):
        yield SearchHit("lane", wanted, f"/jobs?lane={wanted}")
    amount = wanted.replace(",", "").replace("_", "")
    if amount.isdecimal() and 0 < int(amount) <= MAX_AMOUNT and actor.allows(Scope.PAYMENTS_READ):
        link = f"/payments?least={int(amount)}&most={int(amount)}"
        yield SearchHit("payments of this amount", f"{int(amount):,}", link, certain=False)


async def _visible(request: PageRequest, kind: str, subject: UUID) -> bool:
    """Return whether the key may see it: an idempotency key says nothing about rights."""
    actor, services = request.actor, request.services
    match kind:
        case "payment":
            allowed = actor.allows(Scope.PAYMENTS_READ)
            return allowed and await services.payment.read.find(actor, subject) is not None
        case "job":
            return actor.allows(Scope.JOBS_READ)
        case _:
            allowed = actor.allows(Scope.SCHEDULES_READ)
            return allowed and await services.schedule.read.find(actor, subject) is not None


PAGES: Final = (
    ConsolePage("/find", find_page, has_filters=False),
    ConsolePage("/find/peek", find_peek, has_filters=False),
)
