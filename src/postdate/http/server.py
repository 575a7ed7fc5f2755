"""Run the app on the loop that is already running, until it is stopped.

No signal handler is installed here: the caller of `run` owns SIGTERM and SIGINT and calls `stop`.
"""

import asyncio
import socket
from contextlib import suppress
from typing import Final, Protocol

import msgspec
from starlette.types import Receive, Scope, Send

from postdate.core.log import Log
from postdate.http.active_request import ActiveRequests
from postdate.http.connection import ServerConnection
from postdate.http.connection_registry import ConnectionLimits, Connections, make_room
from postdate.http.listener import BACKLOG

CUT_OFF_SECONDS: Final = 1.0
"""How long cancelled requests may take to end before their connections are dropped."""

_log = Log()


class ServerLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Time limits and numbers of connections."""

    header_seconds: float = 20.0
    """The time for all headers to arrive, and for an idle connection to stay open."""

    drain_seconds: float = 10.0
    """How long active requests may continue once the server stops."""

    grace_seconds: float = 0.0
    """How long `/readyz` says "draining" before new connections are refused; each answer says
    that its connection closes."""

    backlog: int = BACKLOG
    """How many connections may wait to be accepted."""

    connections: ConnectionLimits = ConnectionLimits()
    """How many may be open at once."""


class ServedApp(Protocol):
    """An ASGI app that can be drained."""

    draining: asyncio.Event
    active: ActiveRequests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""


class HttpServer:
    """Serves an app on a bound socket until it is stopped, then lets active requests finish."""

    def __init__(
        self, app: ServedApp, listener: socket.socket, limits: ServerLimits | None = None
    ) -> None:
        self._app = app
        self._listener = listener
        self._limits = limits or ServerLimits()
        self._stopped = asyncio.Event()
        host, self._port = listener.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        self.url = f"http://{shown}:{self._port}"

    def stop(self) -> None:
        """Begin to drain; safe to call from a signal handler of the loop, and more than once."""
        self._app.draining.set()
        self._stopped.set()

    async def run(self) -> None:
        """Serve until `stop`, then drain, bounded, and return."""
        connections = Connections(self._connection_limits(), self._limits.header_seconds)
        listening = await asyncio.get_running_loop().create_server(
            lambda: ServerConnection(self._app, connections),
            sock=self._listener,
            backlog=self._limits.backlog,
        )
        watching = asyncio.create_task(connections.watch())
        try:
            await self._stopped.wait()
            connections.closing = True
            await asyncio.sleep(self._limits.grace_seconds)
            listening.close()
            connections.close_idle()
            await self._drain()
        finally:
            watching.cancel()
            listening.close()
            connections.drop_all()

    def _connection_limits(self) -> ConnectionLimits:
        limits = self._limits.connections
        room = make_room(limits.total)
        if room < limits.total:
            _log.warning("fewer connections than set", room=room, connections=limits.total)
        return msgspec.structs.replace(limits, total=room)

    async def _drain(self) -> None:
        active = self._app.active
        try:
            async with asyncio.timeout(self._limits.drain_seconds):
                await active.finished()
        except TimeoutError:
            _log.warning("requests cut off", count=active.cut_off())
            with suppress(TimeoutError):
                async with asyncio.timeout(CUT_OFF_SECONDS):
                    await active.finished()
