"""Say whether the process lives, whether it can serve, and how it fares."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route


class NotReady(msgspec.Struct, frozen=True):
    """One part that cannot serve yet, and why."""

    name: str
    reason: str


class Ready(msgspec.Struct, frozen=True, omit_defaults=True):
    """The answer of `/readyz`."""

    ready: bool
    reasons: list[NotReady] = []


READINESS_SECONDS: Final = 5.0
"""How long the parts may take to say how they are before that itself is a reason."""

Readiness = Callable[[], Awaitable[list[NotReady]]]


def health_routes(
    readiness: Readiness, registry: CollectorRegistry, draining: asyncio.Event
) -> list[Route]:
    """Make `/healthz`, `/readyz` and `/metrics`."""

    async def healthz(_: Request) -> Response:
        return Response(b'{"alive":true}', media_type="application/json")

    async def readyz(_: Request) -> Response:
        reasons = [NotReady("server", "draining")] if draining.is_set() else []
        reasons += await _ask(readiness)
        body = msgspec.json.encode(Ready(ready=not reasons, reasons=reasons))
        return Response(body, 503 if reasons else 200, media_type="application/json")

    async def metrics(_: Request) -> Response:
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    return [Route("/healthz", healthz), Route("/readyz", readyz), Route("/metrics", metrics)]


async def _ask(readiness: Readiness) -> list[NotReady]:
    try:
        async with asyncio.timeout(READINESS_SECONDS):
            return await readiness()
    except TimeoutError:
        return [NotReady("readiness", f"no answer within {READINESS_SECONDS:g} s")]
