"""Wait for the database at a start, and say what for: in the log, and to requests meanwhile."""

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar

from postdate.core.log import Log
from postdate.database.connection.error import DatabaseError, TransientError
from postdate.database.embedded import Embedded, Login
from postdate.node.database_address import unreachable
from postdate.words.error import NotYetError

T = TypeVar("T")

QUIET_SECONDS: Final = 1.0
"""How long a start may take before requests that wait are answered "not ready"."""

PATIENCE_SECONDS: Final = 2.0
"""How long a step may take before the server is asked what it waits for."""

PAUSE_SECONDS: Final = 1.0
MAX_SILENT_SECONDS: Final = 60.0
"""The longest pause between two log lines that say the same."""

log = Log()

AskWhy = Callable[[], Awaitable[str | None]]


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
        self._obstacle = ""
        self._said: dict[str, tuple[float, float]] = {}
        self._answering = asyncio.create_task(self._answer_if_slow())

    async def start(self, server: Embedded) -> Login:
        """Start our own database; a recovery may take minutes."""
        self._server = server
        return await self._unless_stopped(server.start())

    async def reach(
        self, work: Callable[[], Coroutine[Any, Any, T]], why: AskWhy | None = None
    ) -> T:
        """Do some of the first work with the database, again while something passing prevents it.

        `why` tells what the work waits for where it takes long.
        """
        while True:
            try:
                return await self._unless_stopped(work(), why)
            except NotYetError as error:
                self._say(str(error))
            except TransientError as error:
                self._say(str(unreachable(error)))
            except DatabaseError as error:
                raise unreachable(error) from error
            await self._unless_stopped(asyncio.sleep(PAUSE_SECONDS))

    async def end(self) -> None:
        """Leave the requests to the server that has started, or unanswered."""
        self._answering.cancel()
        await asyncio.gather(self._answering, return_exceptions=True)

    async def _unless_stopped(self, work: Coroutine[Any, Any, T], why: AskWhy | None = None) -> T:
        working, stopped = asyncio.create_task(work), asyncio.create_task(self._stop.wait())
        both: set[asyncio.Task[Any]] = {working, stopped}
        first, seconds = asyncio.FIRST_COMPLETED, PATIENCE_SECONDS if why else None
        try:
            while not (await asyncio.wait(both, timeout=seconds, return_when=first))[0]:
                self._say(await _ask(why) or "the database takes long to answer")
            if working.done():
                return working.result()
            raise StoppedError
        finally:
            stopped.cancel()
            working.cancel()
            await asyncio.gather(working, stopped, return_exceptions=True)

    def _say(self, obstacle: str) -> None:
        """Log an obstacle when it is new, and again after pauses that grow."""
        self._obstacle = obstacle
        now = time.monotonic()
        due, pause = self._said.get(obstacle, (now, PATIENCE_SECONDS))
        if now >= due:
            log.warning("start.waits", reason=obstacle)
            self._said[obstacle] = now + pause, min(2 * pause, MAX_SILENT_SECONDS)

    async def _answer_if_slow(self) -> None:
        await asyncio.sleep(QUIET_SECONDS)
        await self._loading
        from postdate.api.waiting import WaitingApp
        from postdate.http.server import HttpServer

        app = WaitingApp(self._reason)
        # On copies: the sockets themselves go on listening when these are closed.
        await asyncio.gather(*(HttpServer(app, each.dup()).run() for each in self._listeners))

    def _reason(self) -> str:
        if self._obstacle or self._server is None:
            return self._obstacle or "it does not answer yet"
        return f"our own PostgreSQL is not ready yet: {self._server.doing()}"


async def _ask(why: AskWhy | None) -> str | None:
    if why is None:
        return None
    with suppress(DatabaseError, TimeoutError):
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await why()
    return None
