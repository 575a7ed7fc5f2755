"""Foresight: what becomes due against the capacity, and the payments that will fail."""

from datetime import timedelta
from typing import Any, Final, Literal

import msgspec
from starlette.responses import Response

from postdate.console.page_request import ConsolePage, PageRequest
from postdate.model.tenant.identity import Scope
from postdate.views.foresight.load_shape import LoadQuestion, LoadView

WINDOWS: Final = {
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
    "week": timedelta(days=7),
    "month": timedelta(days=31),
    "year": timedelta(days=365),
}


class ForesightFilters(msgspec.Struct, frozen=True, kw_only=True):
    """The address of the page."""

    window: Literal["hour", "day", "week", "month", "year"] = "day"


async def foresight_page(request: PageRequest) -> Response:
    """Show load and money ahead."""
    actor, filters = request.actor, request.query(ForesightFilters)
    if actor.accounts is not None or not actor.allows(Scope.PAYMENTS_READ):
        return request.render("partial.html")
    until = request.now + WINDOWS[filters.window]
    services = request.services.foresight
    load = await services.load.load(actor.tenant_id, LoadQuestion(until=until))
    money = await services.money.project(actor.tenant_id, until)
    return request.render(
        "foresight.html",
        load=load,
        money=money,
        window=filters.window,
        windows=list(WINDOWS),
        chart=_chart(load),
        busiest=_busiest(load),
    )


def _chart(load: LoadView) -> dict[str, list[int]]:
    slots = -(-int((load.until_at - load.from_at).total_seconds()) // load.slot_seconds)
    begin = round(load.from_at.timestamp())
    counts = {series.kind: series.counts for series in load.series}
    return {
        "x": [begin + slot * load.slot_seconds for slot in range(slots)],
        "jobs": counts.get("jobs", [0] * slots),
        "payments": counts.get("payments", [0] * slots),
    }


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
