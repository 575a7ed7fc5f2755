"""Foresight: what becomes due against the capacity, where money goes, and who falls short."""

from datetime import datetime, timedelta
from typing import Any, Final, Literal

import msgspec
from starlette.responses import Response

from postdate.console.page_request import ConsolePage, PageRequest
from postdate.core.identity import Scope
from postdate.foresight.view.load_shape import LoadQuestion, LoadView
from postdate.foresight.view.money import MoneyTotal, MoneyView
from postdate.foresight.view.rules import By
from postdate.http.endpoint import existing
from postdate.words.error import Code, refuse

WINDOWS: Final = {
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
    "week": timedelta(days=7),
    "month": timedelta(days=31),
    "year": timedelta(days=365),
}


WindowName = Literal["hour", "day", "week", "month", "year"]
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
        query=filters,
        windows=list(WINDOWS),
        ways=BY | ({"tenant": "by tenant"} if request.operator else {}),
        chart=_chart(load),
        busiest=_busiest(load),
        series=sorted(load.series, key=lambda each: -sum(each.counts))[:SERIES],
        with_=request.address_with,
    )


class MoneyFilters(msgspec.Struct, frozen=True, kw_only=True):
    """The address of the page of money ahead: which window, and which account or all."""

    window: WindowName = "month"
    account: str | None = None


async def money_page(request: PageRequest) -> Response:
    """Show where all money goes, or that of one account, and who falls short first."""
    actor, filters = request.actor, request.query(MoneyFilters)
    until = request.now + WINDOWS[filters.window]
    found = existing(
        await request.services.foresight.money.project(actor.tenant_id, until, filters.account),
        "account",
        filters.account or "",
    )
    first = {each.from_account_id: each for each in reversed(found.failing)}
    return request.render(
        "money.html",
        money=found,
        curves=curves(found),
        first=first,
        query=filters,
        windows=list(WINDOWS),
        with_=request.address_with,
    )


def curves(money: MoneyView) -> list[tuple[MoneyTotal, dict[str, list[float]]]]:
    """Return what is drawn, for each currency or of the one account, each up to the end."""
    totals = money.totals
    if money.lowest is not None and money.end is not None:
        totals = [
            MoneyTotal(
                currency=money.currency,
                accounts=1,
                lowest=money.lowest,
                end=money.end,
                points=money.points,
            )
        ]
    return [(each, _curve(each, money.known_until)) for each in totals]


def _curve(total: MoneyTotal, until: datetime) -> dict[str, list[float]]:
    points = [*total.points, msgspec.structs.replace(total.end, at=max(until, total.end.at))]
    return {
        "x": [each.at.timestamp() for each in points],
        "balance": [each.balance for each in points],
        "available": [each.available for each in points],
    }


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


PAGES: Final = (
    ConsolePage("/foresight", foresight_page, Scope.JOBS_READ),
    ConsolePage("/foresight/money", money_page, Scope.PAYMENTS_READ),
)
