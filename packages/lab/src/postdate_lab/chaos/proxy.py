"""A proxy between some of the processes and PostgreSQL that cuts, refuses or falls silent."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final
from urllib.parse import quote

SOCKET: Final = ".s.PGSQL.5432"
CHUNK: Final = 65536
BACKLOG: Final = 1000
"""How many may wait to be let in: after a cut everybody comes back at once."""


class Proxy:
    """Carries bytes both ways until it is told not to."""

    def __init__(self, server_socket: Path) -> None:
        self._server_socket = server_socket
        self._open: set[asyncio.StreamWriter] = set()
        self._clients: set[asyncio.StreamWriter] = set()
        self._asking, self._answering, self._letting_go = (asyncio.Event() for _ in range(3))
        self.heal()

    def cut(self) -> int:
        """Break every connection; what was committed and not yet answered becomes unknown."""
        for writer in list(self._open):
            writer.transport.abort()
        return len(self._open) // 2

    def silence(self) -> None:
        """Carry nothing any more, and break nothing off: both sides wait."""
        self._asking.clear()
        self._answering.clear()

    def one_way(self, *, asking: bool) -> None:
        """Carry only what clients ask, or only what the server answers."""
        (self._answering if asking else self._asking).clear()

    def half_open(self) -> int:
        """Break off the clients, and let the server believe that they are still there."""
        self._letting_go.clear()
        for writer in list(self._clients):
            writer.transport.abort()
        return len(self._clients)

    def heal(self) -> None:
        """Carry everything again."""
        self.refusing = False
        for each in (self._asking, self._answering, self._letting_go):
            each.set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection until either side ends it."""
        if self.refusing:
            writer.transport.abort()
            return
        try:
            theirs = await asyncio.open_unix_connection(str(self._server_socket))
        except OSError:
            writer.transport.abort()
            return
        both = {writer, theirs[1]}
        self._open |= both
        self._clients.add(writer)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._carry(reader, theirs[1], self._asking))
                group.create_task(self._carry(theirs[0], writer, self._answering))
        except* (OSError, RuntimeError, _EndError):
            pass  # a transport that was aborted raises either
        finally:
            self._clients.discard(writer)
            await self._letting_go.wait()
            self._open -= both
            for each in both:
                each.transport.abort()

    async def _carry(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, open_way: asyncio.Event
    ) -> None:
        while data := await reader.read(CHUNK):
            await open_way.wait()
            writer.write(data)
            await writer.drain()
        raise _EndError


class _EndError(Exception):
    """One side has ended the connection."""


@asynccontextmanager
async def proxied(directory: Path, server_socket: Path) -> AsyncIterator[Proxy]:
    """Listen in a directory, as a server of its own would."""
    proxy = Proxy(server_socket)
    path = str(directory / SOCKET)
    listening = await asyncio.start_unix_server(proxy.serve, path, backlog=BACKLOG)
    try:
        yield proxy
    finally:
        listening.close()
        proxy.heal()
        proxy.cut()
        with suppress(TimeoutError):
            async with asyncio.timeout(5):
                await listening.wait_closed()


def through(dsn: str, server_directory: str, directory: Path) -> str:
    """Return the address that leads through the proxy."""
    return dsn.replace(quote(server_directory), quote(str(directory)))
