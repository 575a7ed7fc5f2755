"""Receivers that hang, drip, lie and die: raw sockets that speak as badly as they are told."""

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass, field

Act = Callable[["Peer"], Awaitable[None]]


@dataclass
class Peer:
    """One connection, after its request has been read."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    hostile: "Hostile"

    async def write(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()
        self.hostile.written += len(data)

    async def hang(self) -> None:
        """Say nothing until the other side gives up."""
        await self.reader.read()

    async def drip(self, pieces: Iterable[bytes], seconds: float) -> None:
        """Write piece after piece, until the other side gives up."""
        for piece in pieces:
            await self.write(piece)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.reader.readexactly(1), seconds)

    def reset(self) -> None:
        """Die: the kernel sends RST instead of a polite end."""
        linger = struct.pack("ii", 1, 0)
        self.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.writer.transport.abort()


@dataclass
class Hostile:
    """A listening receiver and what it has seen."""

    act: Act
    port: int = 0
    requests: list[bytes] = field(default_factory=list)
    connections: int = 0
    written: int = 0
    _running: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        running = asyncio.current_task()
        assert running is not None
        self._running.add(running)
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                while True:
                    self.requests.append(await read_request(reader))
                    await self.act(Peer(reader, writer, self))
        finally:
            self._running.discard(running)
            writer.transport.abort()

    async def close(self) -> None:
        for running in list(self._running):
            running.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)


async def read_request(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    lines = (line.partition(b":") for line in head.lower().split(b"\r\n"))
    length = next((int(value) for name, _, value in lines if name == b"content-length"), 0)
    return head + await reader.readexactly(length)


@contextlib.asynccontextmanager
async def hostile(act: Act) -> AsyncIterator[Hostile]:
    """Run a receiver that acts so on each request, again and again on one connection."""
    running = Hostile(act)
    server = await asyncio.start_server(running.accept, "127.0.0.1", 0)
    running.port = server.sockets[0].getsockname()[1]
    try:
        yield running
    finally:
        server.close()
        await running.close()


def answering(data: bytes) -> Act:
    """Give these bytes as an answer, then wait for the next request."""

    async def act(peer: Peer) -> None:
        await peer.write(data)

    return act


def status(number: int, *headers: str, body: bytes = b"") -> Act:
    """Give a well-formed answer."""
    lines = [f"HTTP/1.1 {number} Because", f"Content-Length: {len(body)}", *headers]
    return answering("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
