"""Wait for the database at a start, and answer requests with the reason meanwhile."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Final, TypeVar

from postdate.model.error import StartError
from postdate.model.log import Log
from postdate.store.connection.error import TransientError
from postdate.store.embedded import Embedded, Login

T = TypeVar("T")

QUIET_SECONDS: Final = 1.0
"""How long a start may take before requests that wait are answered "not ready"."""

PAUSE_SECONDS: Final = 1.0

log = Log()


class StoppedError(Exception):
    """The process was told to stop before it had started."""


class Starting:
    """A start that may take long: requests are answered meanwhile, and it can be stopped."""

    def __init__(
        self, listeners: Sequence[socket.socket], loading: Awaitable[Any], stop: asyncio.Event
    ) -> None:
        self._listeners = listeners
        self._loading = loading
        self._stop = stop
        self._server: Embedded | None = None
        self._failure = ""
        self._answering = asyncio.create_task(self._answer_if_slow())

    async def start(self, server: Embedded) -> Login:
        """Start our own database; a recovery may take minutes."""
        self._server = server
        return await self._unless_stopped(server.start())

    async def reach(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Do the first work with the database, again while our own cannot do it just now."""
        while True:
            try:
                return await self._unless_stopped(work())
            except StartError as error:
                if self._server is None or not isinstance(error.__cause__, TransientError):
                    raise
                self._failure = str(error.__cause__)
                log.warning("database.awaited", error=self._failure)
            await asyncio.sleep(PAUSE_SECONDS)

    async def end(self) -> None:
        """Leave the requests to the server that has started, or to nobody."""
        self._answering.cancel()
        await asyncio.gather(self._answering, return_exceptions=True)

    async def _unless_stopped(self, work: Coroutine[Any, Any, T]) -> T:
        working, stopped = asyncio.create_task(work), asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait({working, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                return working.result()
            raise StoppedError
        finally:
            stopped.cancel()
            working.cancel()
            await asyncio.gather(working, stopped, return_exceptions=True)

    async def _answer_if_slow(self) -> None:
        await asyncio.sleep(QUIET_SECONDS)
        await self._loading
        from postdate.api.http.server import HttpServer
        from postdate.api.waiting import WaitingApp

        app = WaitingApp(self._reason)
        # On copies: the sockets themselves go on listening when these are closed.
        await asyncio.gather(*(HttpServer(app, each.dup()).run() for each in self._listeners))

    def _reason(self) -> str:
        if self._server is None or self._failure:
            return f"it does not answer yet: {self._failure}".rstrip(": ")
        return f"our own PostgreSQL is not ready yet: {self._server.doing()}"
