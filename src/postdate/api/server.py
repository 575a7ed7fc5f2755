"""Run the app on Granian inside the loop that is already running.

Granian's embedded server installs no signal handlers: whoever runs `Server.run` owns SIGTERM and
SIGINT and calls `stop`.
"""

import asyncio
import errno
import socket
from typing import Any, Final

import msgspec
import structlog
from granian._granian import SocketHolder
from granian.constants import HTTPModes, Interfaces
from granian.http import HTTP1Settings
from granian.log import LogLevels
from granian.server.embed import Server as Embedded

from postdate.api.shell import Shell
from postdate.model.errors import StartError

CUT_OFF_SECONDS: Final = 1.0
"""How long cancelled requests may take to end before their connections are dropped."""

_HEADER_BYTES: Final = 64 * 1024
_log = structlog.get_logger(__name__)


class ServerLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How connections are taken in and let go."""

    header_seconds: float = 20.0
    """The time for all headers to arrive, and for an idle connection to stay open."""

    drain_seconds: float = 10.0
    """How long requests in flight may go on once the server stops."""

    grace_seconds: float = 0.0
    """How long `/readyz` says "draining" before new connections are refused."""

    backlog: int = 1024
    """How many connections may wait to be accepted, and how many may be served at once."""


def bind(host: str, port: int, backlog: int = ServerLimits().backlog) -> socket.socket:
    """Take the port, before anything else is started; port 0 takes a free one.

    Granian itself binds with SO_REUSEPORT, so that a second server would silently share the port.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=backlog)
    except OSError as error:
        raise StartError(_bind_sentence(host, port, error)) from None


def _bind_sentence(host: str, port: int, error: OSError) -> str:
    match error.errno:
        case errno.EADDRINUSE:
            return f"port {port} on {host} is taken: stop what uses it or set POSTDATE_PORT"
        case errno.EACCES:
            return f"port {port} on {host} needs more rights: set POSTDATE_PORT to 1024 or higher"
        case _:
            return f"{host} is not an address of this machine ({error}): set POSTDATE_HOST"


class _OnSocket(Embedded):
    """Granian's embedded server on a socket that is already bound."""

    def __init__(self, listener: socket.socket, app: Shell, limits: ServerLimits) -> None:
        super().__init__(
            app,
            interface=Interfaces.ASGINL,
            http=HTTPModes.http1,
            websockets=False,
            backlog=limits.backlog,
            http1_settings=HTTP1Settings(
                header_read_timeout=int(limits.header_seconds * 1000),
                max_buffer_size=_HEADER_BYTES,
            ),
            log_level=LogLevels.error,
            # Incremental: otherwise Granian's logging set-up closes everybody else's handlers.
            log_dictconfig={"incremental": True, "handlers": {}, "loggers": {}},
        )
        self._listener = listener

    def interrupt(self) -> None:
        """Stop accepting and let connections finish."""
        self.interrupt_signal = True
        self.main_loop_interrupt.set()

    def _init_shared_socket(self) -> None:
        holder: Any = SocketHolder  # its stub forgets the constructor that pickling uses
        # Granian closes the descriptor, so that Python must forget it.
        self._shd: Any = holder(self._listener.detach(), False, self.backlog)


class Server:
    """Serves an app on a bound socket until it is stopped, then lets requests in flight finish."""

    def __init__(
        self, app: Shell, listener: socket.socket, limits: ServerLimits | None = None
    ) -> None:
        self._app = app
        self._listener = listener
        self._limits = limits or ServerLimits()
        self._stopped = asyncio.Event()
        host, port = listener.getsockname()[:2]
        self.url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    def stop(self) -> None:
        """Begin to drain; safe to call from a signal handler of the loop, and more than once."""
        self._app.draining.set()
        self._stopped.set()

    async def run(self) -> None:
        """Serve until `stop`, then drain, bounded, and return."""
        embedded = _OnSocket(self._listener, self._app, self._limits)
        serving = asyncio.create_task(embedded.serve())
        stopped = asyncio.create_task(self._stopped.wait())
        try:
            await asyncio.wait({serving, stopped}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopped.cancel()
            if not self._stopped.is_set():
                embedded.interrupt()
        if serving.done():
            await serving
            raise StartError("the HTTP server ended by itself: its log says why")
        await asyncio.sleep(self._limits.grace_seconds)
        embedded.interrupt()
        await self._drain(serving)

    async def _drain(self, serving: asyncio.Task[None]) -> None:
        in_flight = self._app.in_flight
        done = asyncio.gather(asyncio.shield(serving), in_flight.finished())
        try:
            async with asyncio.timeout(self._limits.drain_seconds):
                await done
        except TimeoutError:
            _log.warning("requests cut off", count=in_flight.cut_off())
            await asyncio.wait({serving}, timeout=CUT_OFF_SECONDS)
            serving.cancel()
            await asyncio.wait({serving})
