"""Liveness, readiness and metrics: `/healthz`, `/readyz`, `/metrics`."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Literal

import msgspec
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Gauge, generate_latest
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from postdate.words.error import Code, refuse

ServedKind = Literal["reads", "writes"]


class NotReady(msgspec.Struct, frozen=True):
    """A part that keeps this process from serving, and why; `stops` says what it keeps it from."""

    name: str
    reason: str
    stops: list[ServedKind] = []


class Degraded(NotReady, frozen=True):
    """A part that is degraded, and why; all other requests are served."""


class Ready(msgspec.Struct, frozen=True):
    """The answer of `/readyz`: degraded and overdue parts are listed but do not make it unready.

    `reads` and `writes` say whether all of them can be served now.
    """

    ready: bool
    reads: bool
    writes: bool
    reasons: list[NotReady]
    degraded: list[NotReady]
    overdue: list[str]


class ReadinessMeter:
    """What `/readyz` last answered, for a scrape."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._ready = Gauge(
            "postdate_ready",
            "1 if the process was ready at the last answer of /readyz.",
            registry=registry,
        )
        self._serving = Gauge(
            "postdate_serving",
            "1 if all reads, or all writes, could be served at the last answer of /readyz.",
            ["what"],
            registry=registry,
        )
        self._degraded = Gauge(
            "postdate_degraded",
            "1 for each part that was degraded at the last answer of /readyz.",
            ["part"],
            registry=registry,
        )

    def answered(self, answer: Ready) -> None:
        """Record an answer."""
        self._ready.set(int(answer.ready))
        self._serving.labels("reads").set(int(answer.reads))
        self._serving.labels("writes").set(int(answer.writes))
        self._degraded.clear()
        for each in answer.degraded:
            self._degraded.labels(each.name).set(1)


BOTH: Final[tuple[ServedKind, ...]] = ("reads", "writes")
DRAINING: Final = NotReady("server", "draining", [*BOTH])
ALIVE: Final = b'{"alive":true}'

READINESS_SECONDS: Final = 5.0
"""How long the checks may take; a slow check makes the process unready."""

METRICS_SHARE: Final = 0.1
"""The largest share of the event loop's time that rendering the metrics may take."""

Readiness = Callable[[], Awaitable[list[NotReady]]]
OverdueNow = Callable[[], Sequence[str]]


def health_routes(
    readiness: Readiness,
    registry: CollectorRegistry,
    draining: asyncio.Event,
    overdue: OverdueNow = list,
) -> list[Route]:
    """Make `/healthz`, `/readyz` and `/metrics`."""
    page, meter = MetricsPage(registry), ReadinessMeter(registry)

    async def healthz(_: Request) -> Response:
        return Response(ALIVE, media_type="application/json")

    async def readyz(request: Request) -> Response:
        wanted = _wanted(request)
        found = [DRAINING] if draining.is_set() else []
        answer = judge([*found, *await _ask(readiness)], list(overdue()))
        meter.answered(answer)
        served = {"": True, "reads": answer.reads, "writes": answer.writes}[wanted]
        status = 200 if answer.ready and served else 503
        return Response(msgspec.json.encode(answer), status, media_type="application/json")

    async def metrics(_: Request) -> Response:
        return Response(await page.fresh_page(), media_type=CONTENT_TYPE_LATEST)

    return [Route("/healthz", healthz), Route("/readyz", readyz), Route("/metrics", metrics)]


def judge(found: Sequence[NotReady], overdue: list[str]) -> Ready:
    """Return whether the process is ready: degraded parts alone do not make it unready."""
    degraded = [each for each in found if isinstance(each, Degraded)]
    reasons = [each for each in found if not isinstance(each, Degraded)]
    stopped = {what for each in found for what in each.stops}
    return Ready(
        ready=not reasons,
        reads="reads" not in stopped,
        writes="writes" not in stopped,
        reasons=reasons,
        degraded=[*degraded],
        overdue=overdue,
    )


def _wanted(request: Request) -> str:
    """Return what is asked about: `?for=reads`, `?for=writes`, or anything at all."""
    wanted = request.query_params.get("for", "")
    if wanted not in {"", *BOTH}:
        raise refuse(Code.INVALID_FIELD, "`for` is `reads` or `writes`.", "for")
    return wanted


async def _ask(readiness: Readiness) -> list[NotReady]:
    try:
        async with asyncio.timeout(READINESS_SECONDS):
            return await readiness()
    except TimeoutError:
        reason = f"no answer within {READINESS_SECONDS:g} s"
        return [NotReady("readiness", reason, [*BOTH])]


class MetricsPage:
    """Renders the metrics once for all who wait: it needs no key, and takes a while."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._coming: asyncio.Task[bytes] | None = None
        self._not_before = 0.0

    async def fresh_page(self) -> bytes:
        """Return a page that was rendered after the request came."""
        if self._coming is None:
            self._coming = asyncio.create_task(self._write())
        return await asyncio.shield(self._coming)

    async def _write(self) -> bytes:
        await asyncio.sleep(self._not_before - time.monotonic())
        # Later requests wait for the next one.
        self._coming = None
        began = time.monotonic()
        page = generate_latest(self._registry)
        ended = time.monotonic()
        self._not_before = ended + (ended - began) / METRICS_SHARE
        return page
