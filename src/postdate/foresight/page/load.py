"""Load ahead: what becomes due against the capacity, and what fails for lack of money."""

from datetime import datetime, timedelta
from typing import Any, Final

import msgspec
from starlette.responses import Response

from postdate.console.page_request import ConsolePage, PageRequest
from postdate.core.identity import Scope
from postdate.foresight.page.money import cause_rows
from postdate.foresight.page.window import WINDOWS, WindowName
from postdate.foresight.view.load_shape import LoadQuestion, LoadView
from postdate.foresight.view.rules import By
from postdate.words.error import Code, refuse

BY: Final = {"total": "all together", "lane": "by lane", "destination": "by destination"}
SERIES: Final = 50
"""How many lanes, destinations or tenants are told apart: those with the most work."""


class ForesightFilters(msgspec.Struct, frozen=True, kw_only=True):
    """The address of the page."""

    window: WindowName = "day"
    by: By = "total"
    lane: str | None = None

    def question(self, until: datetime) -> LoadQuestion:
        """Return what is asked of the load."""
        return LoadQuestion(until=until, by="lane" if self.lane else self.by, lane=self.lane)


async def foresight_page(request: PageRequest) -> Response:
    """Show load and money ahead."""
    actor, filters = request.actor, request.query(ForesightFilters)
    if not actor.allows(Scope.PAYMENTS_READ):
        return request.render("partial.html")
    until = request.now + WINDOWS[filters.window]
    services = request.services.foresight
    load = await _load(request, filters.question(until))
    money = await services.money.project(actor.tenant_id, until)
    return request.render(
        "foresight.html",
        load=load,
        money=money,
        causes=[] if money is None else cause_rows(money),
        query=filters,
        windows=list(WINDOWS),
        ways=BY | ({"tenant": "by tenant"} if request.operator else {}),
        chart=_chart(load),
        busiest=_busiest(load),
        series=sorted(load.series, key=lambda each: -sum(each.counts))[:SERIES],
        with_=request.address_with,
    )


async def _load(request: PageRequest, question: LoadQuestion) -> LoadView:
    """Ask for the tenant's own load; an operator may ask for that of all tenants."""
    views = request.services.foresight.load
    if question.by != "tenant":
        return await views.load(request.actor.tenant_id, question)
    if not request.operator:
        raise refuse(Code.FORBIDDEN, "Only the operator sees the load of all tenants.")
    return await views.load_of_all(question)


def _chart(load: LoadView) -> dict[str, list[int]]:
    slots = -(-int((load.until_at - load.from_at).total_seconds()) // load.slot_seconds)
    begin = round(load.from_at.timestamp())
    chart = {"x": [begin + slot * load.slot_seconds for slot in range(slots)]}
    for kind in ("jobs", "payments"):
        own = [series.counts for series in load.series if series.kind == kind]
        chart[kind] = [sum(counts) for counts in zip(*own, strict=True)] or [0] * slots
    return chart


def _busiest(load: LoadView, rows: int = 20) -> list[tuple[Any, int, int]]:
    """Return the busiest slots, in the order of time: the table behind the chart."""
    chart = _chart(load)
    found = list(zip(chart["x"], chart["jobs"], chart["payments"], strict=True))
    busiest = sorted(found, key=lambda row: -(row[1] + row[2]))[:rows]
    begin = load.from_at
    return [
        (begin + timedelta(seconds=at - chart["x"][0]), jobs, payments)
        for at, jobs, payments in sorted(busiest)
        if jobs + payments
    ]


PAGES: Final = (ConsolePage("/foresight", foresight_page, Scope.JOBS_READ),)
