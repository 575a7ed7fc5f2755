"""A real server on a free port inside the test's loop, and a client that sends exact bytes."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
from prometheus_client import CollectorRegistry

from postdate.api.app import create_app
from postdate.http.gate import Gate
from postdate.http.listener import bind
from postdate.http.server import HttpServer, ServerLimits
from postdate.http.shell import Shell


@dataclass
class Answered:
    """A parsed answer."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)


@dataclass
class Running:
    """A served app: ask it, stop it."""

    app: Shell
    server: HttpServer
    port: int
    task: "asyncio.Task[None]"
    headers: dict[str, str] = field(default_factory=dict)

    async def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> Answered:
        """Send one ordinary request on its own connection."""
        sent = {"host": "test", "connection": "close"} | self.headers | (headers or {})
        if body is not None:
            sent = {"content-type": "application/json", "content-length": str(len(body))} | sent
        head = f"{method} {path} HTTP/1.1\r\n"
        head += "".join(f"{name}: {value}\r\n" for name, value in sent.items() if value)
        return await self.raw(f"{head}\r\n".encode() + (body or b""))

    async def raw(self, data: bytes) -> Answered:
        """Send exact bytes and read until the server closes."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(data)
            return await read_answer(reader)
        finally:
            writer.close()


async def read_answer(reader: asyncio.StreamReader, seconds: float = 10) -> Answered:
    """Read one answer by its content length, its chunks, or the end of the stream."""
    async with asyncio.timeout(seconds):
        lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines[1:])}
        if "content-length" in headers:
            body = await reader.readexactly(int(headers["content-length"]))
        else:
            body = await reader.read()
    return Answered(int(lines[0].split()[1]), headers, body)


@asynccontextmanager
async def serving(app: Shell, limits: ServerLimits | None = None) -> AsyncIterator[Running]:
    """Serve an app on a free port and stop it at the end."""
    listener = bind("127.0.0.1", 0)
    port = listener.getsockname()[1]
    server = HttpServer(app, listener, limits)
    task = asyncio.create_task(server.run())
    try:
        yield Running(app, server, port, task)
    finally:
        server.stop()
        await task


async def until(holds: Callable[[], bool], seconds: float = 5) -> None:
    """Wait for a condition, polling with a deadline."""
    async with asyncio.timeout(seconds):
        while not holds():  # noqa: ASYNC110 - what is waited for knows no event
            await asyncio.sleep(0.005)


_GATE: Final = frozenset(Gate.__dataclass_fields__)


async def _no_reasons() -> list[Any]:
    return []


def make_app(endpoints: Sequence[Any], **parts: Any) -> Shell:
    """Make an app from endpoints, with harmless defaults for what a test does not care about."""
    defaults: dict[str, Any] = {
        "services": None,
        "readiness": _no_reasons,
        "registry": CollectorRegistry(),
    }
    checks: dict[str, Any] = {"authenticate": None}
    checks |= {name: parts.pop(name) for name in _GATE & parts.keys()}
    return create_app(endpoints=endpoints, gate=Gate(**checks), **(defaults | parts))
