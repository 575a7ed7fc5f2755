"""The overview: problems first, then numbers, then the forecast."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, Final

import msgspec
from starlette.responses import Response, StreamingResponse

from postdate.console.frame import sees_whole
from postdate.console.page_request import HEADERS, ConsolePage, PageRequest
from postdate.console.render import duration
from postdate.foresight.view.due_chart import DueChart
from postdate.monitor.view.activity import Minutes
from postdate.monitor.view.cluster_problem import AUDITS, ClusterFacts, find_cluster_problems
from postdate.monitor.view.overview import Overview, SlowOverview
from postdate.monitor.view.overview_problem import ProblemGroup, grouped
from postdate.monitor.view.problem import ProblemFacts, find_problems
from postdate.words.error import Code, refuse

TICK_SECONDS: Final = 2.0
STREAM_TICKS: Final = 300
"""A stream ends after ten minutes; the browser opens the next one by itself."""


class BooksCheck(msgspec.Struct, frozen=True):
    """The last check of one kind, if there ever was one."""

    command: str
    link: str
    ago: str | None
    findings: int


def _checks(overview: Overview) -> list[BooksCheck]:
    """Return when the books were last checked as a whole, with the findings."""
    ran = {run.name: run for run in overview.slow.checks}
    return [
        BooksCheck(
            command,
            link,
            duration(round(ran[name].seconds * 1000)) if name in ran else None,
            ran[name].findings if name in ran else 0,
        )
        for name, (command, link) in AUDITS.items()
    ]


async def overview_page(request: PageRequest) -> Response:
    """Show current problems and the forecast."""
    if not sees_whole(request.actor):
        return request.render("partial.html")
    return request.render("overview.html", **await _values(request))


async def overview_stream(request: PageRequest) -> Response:
    """Stream the live cells; the page replaces each by its id."""
    if not sees_whole(request.actor):
        raise refuse(Code.FORBIDDEN, "Your key may not see the whole tenant.")
    # A browser opens one, whatever the number of its tabs; the page's request ends it.
    request.http.scope["hold_open"](request.actor)
    headers = {**HEADERS, "x-accel-buffering": "no"}
    return StreamingResponse(_ticks(request), media_type="text/event-stream", headers=headers)


async def _ticks(request: PageRequest) -> AsyncIterator[str]:
    """Return the cells every two seconds, as long as the session lasts and the server serves."""
    draining: asyncio.Event = request.http.scope["draining"]
    yield f"retry: {TICK_SECONDS * 1000:.0f}\n\n"
    for _ in range(STREAM_TICKS):
        if not await request.signed_in():
            yield "event: gone\ndata:\n\n"
            return
        yield _event("cells", request.fragment("_live.html", **await _values(request)))
        with suppress(TimeoutError):
            async with asyncio.timeout(TICK_SECONDS):
                await draining.wait()
            return


def _event(name: str, text: str) -> str:
    lines = "\n".join(f"data: {line}" for line in text.splitlines() if line.strip())
    return f"event: {name}\n{lines}\n\n"


async def _values(request: PageRequest) -> dict[str, Any]:
    await request.read_frame()
    found = await request.services.overview.get(request.actor.tenant_id)
    actor = request.actor
    minutes = found.activity.minutes
    facts = ProblemFacts(
        overview=found,
        overdue=request.services.overdue.sentences(actor.tenant_id),
        troubles=request.services.destination.read.failing(actor.tenant_id),
        halts=await request.services.halt.read.page(actor.tenant_id),
        now=request.now,
        will_fail=await request.services.foresight.will_fail(actor.tenant_id),
    )
    problems = find_problems(facts)
    if any(problem.actor for problem in problems):
        await request.learn_names()
    return {
        "overview": found,
        "activity": found.activity,
        "groups": grouped(problems),
        "cluster": await cluster_problems(request) if request.operator else None,
        "checks": _checks(found) if request.operator else [],
        "charts": {
            "throughput": _columns(minutes, ("accepted", "executed", "failed")),
            "lateness": _columns(minutes, ("p50", "p99")),
            "day": _chart(found.slow, found.slow.forecast.day, _capacity(minutes)),
        },
    }


async def cluster_problems(request: PageRequest) -> list[ProblemGroup]:
    """Find what is wrong with the cluster, for its operators."""
    found = await request.services.overview.get(request.actor.tenant_id)
    facts = ClusterFacts(
        audits=found.slow.checks,
        overdue=request.services.overdue.sentences(None),
        nodes=await request.services.node.page(),
        now=request.now,
    )
    return grouped(find_cluster_problems(facts))


def _columns(minutes: Minutes, names: tuple[str, ...]) -> dict[str, Any]:
    return {"x": minutes.x} | {
        name: [None if at is None else round(at, 4) for at in getattr(minutes, name)]
        for name in names
    }


def _capacity(minutes: Minutes) -> float | None:
    """Return the most that was executed per second within a minute of the last hour."""
    return max((each for each in minutes.executed if each), default=None)


def _chart(
    slow: SlowOverview, due: DueChart, per_second: float | None
) -> dict[str, list[int | None]]:
    begin = slow.forecast.begin.timestamp()
    return {
        "x": [round(begin + slot * due.slot_seconds) for slot in range(len(due.jobs))],
        "jobs": list(due.jobs),
        "payments": list(due.payments),
        "capacity": [None if per_second is None else round(per_second * due.slot_seconds)]
        * len(due.jobs),
    }


async def state_part(request: PageRequest) -> Response:
    """Return the current state bar, for pages that stay open."""
    await request.read_frame()
    return request.render("_state.html")


PAGES: Final = (
    ConsolePage("/state", state_part, limited="filtered"),
    ConsolePage("/", overview_page, limited="filtered"),
    ConsolePage("/overview/stream", overview_stream),
)
