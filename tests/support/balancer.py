"""A load balancer for tests: it obeys `/readyz`, and repeats only what was never sent."""

import asyncio
import itertools
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

import aiohttp
from aiohttp import web

from support.pause import wait_out

PROBE_SECONDS: Final = 0.2
_HOP: Final = frozenset({"connection", "keep-alive", "transfer-encoding", "content-length"})


class Balancer:
    """Sends each request to the next node that is ready; its answer is passed on as it came."""

    def __init__(self, nodes: Sequence[str]) -> None:
        self._nodes = nodes
        self._ready: set[str] = set()
        self._turns = itertools.count()
        self.failed: list[str] = []
        self.served: dict[str, int] = dict.fromkeys(nodes, 0)
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            auto_decompress=False, cookie_jar=aiohttp.DummyCookieJar()
        )
        await self._look()
        self._watching = asyncio.create_task(self._watch())
        app = web.Application(client_max_size=2**24)
        app.router.add_route("*", "/{path:.*}", self._forward)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        self._watching.cancel()
        await self._runner.cleanup()
        await self._session.close()

    async def sees_ready(self, node: str) -> bool:
        """Say whether requests are sent to a node."""
        return node in self._ready

    async def _watch(self) -> None:
        while True:
            await wait_out(PROBE_SECONDS)
            await self._look()

    async def _look(self) -> None:
        await asyncio.gather(*(self._probe(node) for node in self._nodes))

    async def _probe(self, node: str) -> None:
        ready = False
        with suppress(aiohttp.ClientError, OSError, TimeoutError):
            timeout = aiohttp.ClientTimeout(total=5)
            async with self._session.get(f"{node}/readyz", timeout=timeout) as answer:
                ready = answer.status == 200
        (self._ready.add if ready else self._ready.discard)(node)

    async def _forward(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        headers = {k: v for k, v in request.headers.items() if k.lower() not in _HOP}
        for node in self._in_turn():
            try:
                async with self._session.request(
                    request.method, node + request.raw_path, data=body, headers=headers,
                    allow_redirects=False,
                ) as answer:  # fmt: skip
                    passed = await answer.read()
                    self.served[node] += 1
                    if answer.status >= 500:
                        self.failed.append(f"{request.method} {request.path}: {answer.status}")
                    kept = [(k, v) for k, v in answer.headers.items() if k.lower() not in _HOP]
                    return web.Response(status=answer.status, body=passed, headers=kept)
            except aiohttp.ClientConnectorError:
                continue  # nobody has seen the request
            except (aiohttp.ClientError, OSError, TimeoutError) as error:
                self.failed.append(f"{request.method} {request.path}: {error!r}")
                return web.Response(status=502, text="{}")
        self.failed.append(f"{request.method} {request.path}: no node is ready")
        return web.Response(status=503, text="{}")

    def _in_turn(self) -> list[str]:
        first = next(self._turns)
        ready = [node for node in self._nodes if node in self._ready]
        return ready[first % len(ready) :] + ready[: first % len(ready)] if ready else []
