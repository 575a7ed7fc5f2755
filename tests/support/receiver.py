"""A recorder of HTTP requests, scriptable per path."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from aiohttp import web


@dataclass(frozen=True, slots=True)
class Arrival:
    """One request as it arrived."""

    at: float
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class Receiver:
    """Records every request; answers 200 unless a path is scripted."""

    arrivals: list[Arrival] = field(default_factory=list)
    answers: dict[str, Answer] = field(default_factory=dict)
    _runner: web.AppRunner | None = None
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    port: int = 0

    def url(self, path: str = "/") -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def script(self, path: str, answer: Answer) -> None:
        self.answers[path] = answer

    async def wait_for(self, count: int, seconds: float = 10.0) -> list[Arrival]:
        """Wait until so many requests have arrived."""
        async with asyncio.timeout(seconds):
            while len(self.arrivals) < count:
                self._changed.clear()
                await self._changed.wait()
        return list(self.arrivals)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        self.arrivals.append(
            Arrival(time.monotonic(), request.method, request.path, dict(request.headers), body)
        )
        self._changed.set()
        answer = self.answers.get(request.path)
        return await answer(request) if answer else web.Response(text="ok")

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=8 * 2**20)
        app.router.add_route("*", "/{tail:.*}", self._handle)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._runner:
            await self._runner.cleanup()
