"""Search: what an id, a key or a name means exactly, else names like it, else texts.

Names and texts are searched in a bounded part: the newest. Where there is more, a link goes on.
"""

from collections.abc import AsyncIterator
from typing import Final, NamedTuple
from urllib.parse import quote, urlencode
from uuid import UUID

import msgspec
from starlette.responses import HTMLResponse, Response

from postdate.console.page_request import HEADERS, ConsolePage, PageRequest, redirect
from postdate.core.identity import Identity, Scope
from postdate.core.ids import MAX_ID
from postdate.core.money import MAX_AMOUNT, MoneyTextError, read_units
from postdate.core.status import JobStatus
from postdate.job.view import JobFilter
from postdate.payment.view.payment import PaymentFilter

MAX_LIKE: Final = 5
"""How many of a kind are listed; the list that shows all is one link away."""

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
    """Whether it exists; an amount is only searched for when the link is followed."""


async def find_page(request: PageRequest) -> Response:
    """Redirect to the only match, or list all matches."""
    wanted = request.query(SearchText).q.strip()
    hits = await _hits(request, wanted)
    if _searchable(wanted) and not any(hit.certain for hit in hits):
        hits += [hit async for hit in _by_text(request, wanted)]
    certain = [hit for hit in hits if hit.certain]
    if len(certain) == 1 or (len(hits) == 1 and not certain):
        return redirect((certain or hits)[0].link)
    return request.render("find.html", wanted=wanted, hits=hits, http_status=200 if hits else 404)


async def find_peek(request: PageRequest) -> Response:
    """Return the matches while the text is typed."""
    wanted = request.query(SearchText).q.strip()
    hits = await _hits(request, wanted)
    return HTMLResponse(request.fragment("_hits.html", wanted=wanted, hits=hits), headers=HEADERS)


def _sees_jobs(actor: Identity) -> bool:
    """Return whether the key may see jobs, lanes and destinations, which belong to no account."""
    return actor.allows(Scope.JOBS_READ) and actor.accounts is None


def _searchable(wanted: str) -> bool:
    return bool(wanted) and len(wanted) <= MAX_TEXT and wanted.isprintable()


async def _hits(request: PageRequest, wanted: str) -> list[SearchHit]:
    """Find what is meant exactly, or else what has a name like it."""
    if not _searchable(wanted):
        return []
    try:
        found = _by_id(request, UUID(wanted))
    except ValueError:
        found = _by_name(request, wanted)
    hits = [hit async for hit in found]
    if not any(hit.certain for hit in hits):
        hits += [hit async for hit in _by_like_name(request, wanted)]
    return hits


async def _by_like_name(request: PageRequest, wanted: str) -> AsyncIterator[SearchHit]:
    actor, services = request.actor, request.services
    if actor.allows(Scope.PAYMENTS_READ):
        # Ids that begin with a text follow it at once in their order.
        accounts, _ = await services.account.read.page(actor, wanted, MAX_LIKE)
        for account in accounts:
            if account.account_id.startswith(wanted):
                name = account.account_id
                yield SearchHit("account", name, f"/accounts/{quote(name, safe='')}")
    if _sees_jobs(actor):
        for lane in await services.search.lanes_like(actor.tenant_id, wanted, MAX_LIKE):
            yield SearchHit("lane", lane, f"/jobs?lane={quote(lane)}")
        places, _ = await services.destination.read.page(actor.tenant_id, wanted, MAX_LIKE)
        for one in places:
            if one.name.startswith(wanted):
                yield SearchHit("destination", one.name, f"/destinations/{quote(one.name)}")
    if actor.allows(Scope.SCHEDULES_READ) and actor.accounts is None:
        for schedule_id, name in await services.search.schedules_like(
            actor.tenant_id, wanted, MAX_LIKE
        ):
            yield SearchHit("schedule", name, f"/schedules/{schedule_id}")


async def _by_text(request: PageRequest, wanted: str) -> AsyncIterator[SearchHit]:
    """Search descriptions, metadata, codes and the ends of ids, as far as one page scans."""
    actor, services, text = request.actor, request.services, quote(wanted, safe="")
    if _sees_jobs(actor):
        failed = JobFilter(status=JobStatus.FAILED, code=wanted)
        if (await services.job.read.page(actor.tenant_id, failed, None, 1))[0]:
            yield SearchHit(
                "failed jobs with this code", wanted, f"/jobs?status=FAILED&code={text}"
            )
        named = JobFilter(text=wanted)
        jobs, more = await services.job.read.page(actor.tenant_id, named, None, MAX_LIKE)
        for job in jobs:
            yield SearchHit("job", job.description or str(job.job_id), f"/jobs/{job.job_id}")
        if more is not None:
            yield SearchHit("more jobs", wanted, f"/jobs?text={text}", certain=False)
    if actor.allows(Scope.PAYMENTS_READ) and actor.accounts is None:
        said = PaymentFilter(text=wanted)
        found, rest = await services.payment.read.page(actor, said, MAX_ID, MAX_LIKE)
        for one in found:
            name = one.description or str(one.payment_id)
            yield SearchHit("payment", name, f"/payments/{one.payment_id}")
        if rest is not None:
            yield SearchHit("more payments", wanted, f"/payments?text={text}", certain=False)


async def _by_id(request: PageRequest, identifier: UUID) -> AsyncIterator[SearchHit]:
    actor, services, text = request.actor, request.services, str(identifier)
    if actor.allows(Scope.PAYMENTS_READ) and await services.payment.read.find(actor, identifier):
        yield SearchHit("payment", text, f"/payments/{text}")
    if _sees_jobs(actor) and await services.job.read.find(actor.tenant_id, identifier):
        yield SearchHit("job", text, f"/jobs/{text}")
    if actor.allows(Scope.SCHEDULES_READ) and await services.schedule.read.find(actor, identifier):
        yield SearchHit("schedule", text, f"/schedules/{text}")
    async for hit in _by_name(request, text):
        yield hit
    if actor.allows(Scope.ADMIN) and actor.accounts is None:
        yield SearchHit("decisions by this key", text, f"/audit?actor={text}", certain=False)
        yield SearchHit("events about it", text, f"/events?subject={text}", certain=False)


async def _by_name(request: PageRequest, wanted: str) -> AsyncIterator[SearchHit]:
    actor, services = request.actor, request.services
    if actor.allows(Scope.PAYMENTS_READ) and await services.account.read.find(actor, wanted):
        yield SearchHit("account", wanted, f"/accounts/{wanted}")
    for made in await services.search.under_key(actor.tenant_id, wanted):
        if await _visible(request, made.kind, made.subject):
            yield SearchHit(f"{made.kind} by its key", wanted, f"/{made.kind}s/{made.subject}")
    if _sees_jobs(actor) and await services.search.has_lane(actor.tenant_id, wanted):
        yield SearchHit("lane", wanted, f"/jobs?lane={wanted}")
    if _sees_jobs(actor) and await services.destination.read.find(actor.tenant_id, wanted):
        yield SearchHit("destination", wanted, f"/destinations/{quote(wanted, safe='')}")
    amount = _amount(wanted)
    if amount is not None and actor.allows(Scope.PAYMENTS_READ):
        link = f"/payments?{urlencode({'least': amount, 'most': amount})}"
        yield SearchHit("payments of this amount", amount, link, certain=False)


def _amount(wanted: str) -> str | None:
    """Return an amount as it is searched for, if the text is one."""
    try:
        units, currency = read_units(wanted)
    except MoneyTextError:
        return None
    if not 0 < units <= MAX_AMOUNT:
        return None
    number = f"{units:f}".removesuffix(".0")
    return number if currency is None else f"{number} {currency}"


async def _visible(request: PageRequest, kind: str, subject: UUID) -> bool:
    """Return whether the key may see it: an idempotency key says nothing about rights."""
    actor, services = request.actor, request.services
    match kind:
        case "payment":
            allowed = actor.allows(Scope.PAYMENTS_READ)
            return allowed and await services.payment.read.find(actor, subject) is not None
        case "job":
            return _sees_jobs(actor)
        case _:
            allowed = actor.allows(Scope.SCHEDULES_READ)
            return allowed and await services.schedule.read.find(actor, subject) is not None


PAGES: Final = (
    ConsolePage("/find", find_page, limited="filtered", has_filters=False),
    ConsolePage("/find/peek", find_peek, limited="filtered", has_filters=False),
)
