"""A server that answers what a test wrote down, and remembers what it was asked."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec

DROP = "drop"
"""Instead of an answer: take the whole request, then close the connection."""


@dataclass
class ScriptedRequest:
    """One request."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any


@dataclass
class Scripted:
    """Where it listens, and what it was asked."""

    url: str
    asked: list[ScriptedRequest] = field(default_factory=list)


Answer = tuple[int, Any] | tuple[int, Any, dict[str, str]] | str


@asynccontextmanager
async def scripted(*answers: Answer) -> AsyncIterator[Scripted]:
    """Give the answers one after the other; the last again and again."""
    made = Scripted("")

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while asked := await _read(reader):
                answer = answers[min(len(made.asked), len(answers) - 1)]
                made.asked.append(asked)
                if isinstance(answer, str):
                    return
                writer.write(_written(answer))
                await writer.drain()
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    made.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield made
    finally:
        server.close()


async def _read(reader: asyncio.StreamReader) -> ScriptedRequest | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    except (asyncio.IncompleteReadError, ConnectionResetError):
        return None
    method, path, _ = head[0].split(" ")
    headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in head[1:])}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return ScriptedRequest(method, path, headers, msgspec.json.decode(body) if body else None)


def _written(answer: Sequence[Any]) -> bytes:
    status, body, *more = answer
    data = body if isinstance(body, bytes) else msgspec.json.encode(body)
    headers = {"content-length": str(len(data)), **(more[0] if more else {})}
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status} X\r\n{lines}\r\n".encode() + data
