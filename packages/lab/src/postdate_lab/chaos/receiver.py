"""Receivers of a run: each obeys, fails, hangs or lies, on a port of its own."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from aiohttp import web

from postdate_lab.chaos.history import Recorder

BEHAVIOURS: Final = (
    "obey", "slow", "fail", "refuse", "hang", "lie", "throttle", "redirect", "events"
)  # fmt: skip
SLOW_SECONDS: Final = 0.3
HANG_SECONDS: Final = 5.0
BODY_CHARS: Final = 2000


class Receivers:
    """Records every request that arrives, then answers as its behaviour wants.

    The behaviours that go wrong do so for a job's first attempt and obey its later ones, except
    `refuse` and `redirect`, which never relent.
    """

    def __init__(self, record: Recorder) -> None:
        self._record = record
        self.ports: dict[str, int] = {}

    def url(self, behaviour: str, tenant: str) -> str:
        """Return the address of a behaviour for a tenant."""
        return f"http://127.0.0.1:{self.ports[behaviour]}/{tenant}/{behaviour}"

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Record a request and answer it."""
        body = (await request.text())[:BODY_CHARS]
        tenant, behaviour = request.match_info["tenant"], request.match_info["behaviour"]
        attempt = int(request.headers.get("postdate-attempt", "1"))
        self._record(
            f"receiver-{behaviour}", "info", "arrival", tenant=tenant, behaviour=behaviour,
            id=request.headers.get("webhook-id", ""), attempt=attempt, body=body,
            token=int(request.headers.get("postdate-token", "0")),
        )  # fmt: skip
        match behaviour:
            case "slow":
                await asyncio.sleep(SLOW_SECONDS)
            case "hang" if attempt == 1:
                await asyncio.sleep(HANG_SECONDS)
            case "lie" if attempt == 1:
                if request.transport is not None:
                    request.transport.close()
                return web.Response(status=500)
            case "fail" if attempt == 1:
                return web.Response(status=500)
            case "throttle" if attempt == 1:
                return web.Response(status=429, headers={"Retry-After": "1"})
            case "refuse":
                return web.Response(status=400)
            case "redirect":
                return web.Response(status=302, headers={"Location": self.url("obey", tenant)})
        return web.Response(text="ok")


@asynccontextmanager
async def receiving(record: Recorder) -> AsyncIterator[Receivers]:
    """Open one port for each behaviour: a breaker that spares one spares no other."""
    receivers = Receivers(record)
    app = web.Application(client_max_size=2**20)
    app.router.add_post("/{tenant}/{behaviour}", receivers.handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        for behaviour in BEHAVIOURS:
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            receivers.ports[behaviour] = runner.addresses[-1][1]
        yield receivers
    finally:
        await runner.cleanup()
