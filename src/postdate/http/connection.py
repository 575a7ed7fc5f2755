"""A client's connection: bytes in, requests by httptools, answers out, one after the other."""

import asyncio
import secrets
import socket
import time
from collections import deque
from functools import partial
from http import HTTPStatus
from typing import Final, cast

import httptools
from starlette.types import ASGIApp

from postdate.core.log import Log
from postdate.http.connection_registry import Connections
from postdate.http.exchange import Exchange
from postdate.http.problem import MEDIA_TYPE, encode
from postdate.http.request_parser import HeadError, LastRequestError, RequestParser
from postdate.words.error import Code, Refusal

PIPELINED: Final = 8
WAITING_BYTES: Final = 16 * 1024
"""How many requests, of how many bytes, wait behind the one being served: then nothing is read."""

LINGER_SECONDS: Final = 2.0
"""How long a client that was answered early may go on sending what is thrown away."""

STALLED_SECONDS: Final = 60.0
"""How long a client may leave its answer unread before the connection is dropped."""

_log = Log()


class ServerConnection(asyncio.Protocol):
    """Serves the requests of one client. `Connections` decides how many such there may be."""

    def __init__(self, app: ASGIApp, connections: Connections) -> None:
        self._app = app
        self._connections = connections
        self._parser = RequestParser(self)
        self._transport: asyncio.Transport | None = None
        self.address = ""
        self.client: tuple[str, int] = ("", 0)
        self.server: tuple[str, int] = ("", 0)
        self.quiet_since = time.monotonic()
        """Since when no request is being served: a head may be on its way."""
        # What still comes is thrown away.
        self._deaf = False
        self._lingers_since: float | None = None
        self._paused_since: float | None = None
        self._writable: asyncio.Future[None] | None = None
        # What came behind as many requests as may wait.
        self._unread = b""
        self._serving: Exchange | None = None
        self.waiting: deque[Exchange] = deque()
        self._task: asyncio.Task[None] | None = None

    # What the transport calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the connection in, if there is room."""
        self._transport = cast("asyncio.Transport", transport)
        peer, own = transport.get_extra_info("peername"), transport.get_extra_info("sockname")
        self.client = (peer[0], peer[1]) if peer else ("", 0)
        self.server = (own[0], own[1]) if own else ("", 0)
        self.address = self.client[0]
        if opened := transport.get_extra_info("socket"):
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if not self._connections.admit(self):
            self.drop()

    def connection_lost(self, _: Exception | None) -> None:
        """Tell the serving task that the client has gone."""
        self._connections.leave(self)
        self._transport = None
        self.resume_writing()
        for exchange in (self._serving, *self.waiting):
            if exchange is not None:
                exchange.end()
        self.waiting.clear()
        self._unread = b""

    def pause_writing(self) -> None:
        """Record that the client reads its answer more slowly than it is sent."""
        self._paused_since = time.monotonic()
        self._writable = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        """Record that the client has caught up."""
        self._paused_since = None
        self._connections.unread_answers.release(self)
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
        self._writable = None

    def data_received(self, data: bytes) -> None:
        """Read requests until enough of them wait; what cannot be read ends the connection."""
        if self._deaf:
            return
        try:
            read = self._parser.feed(data)
            if read < len(data):
                self._unread = data[read:]
                self._connections.unread_requests.hold(self, len(self._unread))
                self.pause_reading()
        except LastRequestError:
            self._last_request()
        except (httptools.HttpParserError, HeadError) as error:
            reason = error.__context__ if isinstance(error.__context__, HeadError) else error
            code = reason.code if isinstance(reason, HeadError) else Code.AMBIGUOUS_REQUEST
            self._unreadable(Refusal(code, f"The request cannot be read: {reason}."))

    def eof_received(self) -> bool:
        """Close when the client has: half a connection is not served."""
        return False

    # What the parser calls

    def has_enough(self) -> bool:
        """Return whether as many requests wait as may: the bytes of others stay unread."""
        held = sum(each.held_bytes for each in self.waiting)
        return len(self.waiting) >= PIPELINED or held > WAITING_BYTES

    def serve(self, exchange: Exchange) -> None:
        """Serve a request, at once or after those before it."""
        if self._connections.closing:
            exchange.keep_alive = False
        if self._serving is None:
            self._serving = exchange
            self._connections.busy(self)
            self._connections.starts.add(self.address, partial(self._start, exchange))
        else:
            self.waiting.append(exchange)

    # Serving

    def _start(self, exchange: Exchange) -> None:
        self._task = asyncio.get_running_loop().create_task(self._answer(exchange))

    async def _answer(self, exchange: Exchange) -> None:
        try:
            # A client that does not take its answers is owed no more of them.
            if self._writable is not None:
                await self._writable
            if not exchange.ended:
                await self._app(exchange.scope, exchange.receive, exchange.send)
        except Exception as error:  # noqa: BLE001 - the app has logged it; the client must notice
            _log.debug("answer broken off", error=repr(error))
        finally:
            self._after(exchange)

    def _after(self, exchange: Exchange) -> None:
        """Go on with the next request, or end the connection."""
        self._serving = None
        if self._transport is None:
            return
        if not exchange.answered:
            self.drop()
        elif not (exchange.complete or exchange.ended):
            self._linger()
        elif not exchange.keep_alive or self._connections.closing:
            self._transport.close()
        elif self.waiting:
            # It counts as being served from now on, so that no later request overtakes it.
            self._serving = self.waiting.popleft()
            self._connections.starts.add(self.address, partial(self._start, self._serving))
            self.resume_reading()
        else:
            self._connections.idle(self)
            if not self._transport.is_reading():
                self.resume_reading()  # the app may have left the body lying

    def _linger(self) -> None:
        """Let the client finish sending, otherwise it would never read the early answer."""
        self._deaf, self._unread, self._lingers_since = True, b"", time.monotonic()
        self._connections.idle(self)
        self.resume_reading()
        if self._transport is not None and self._transport.can_write_eof():
            self._transport.write_eof()

    def _last_request(self) -> None:
        """Serve what came, and read nothing behind it."""
        self._deaf = True
        last = self.waiting[-1] if self.waiting else self._serving
        if last is not None:
            last.keep_alive = False
        self.pause_reading()

    def _unreadable(self, refusal: Refusal) -> None:
        """Refuse what cannot be read, after the answers to what could be."""
        self._deaf = True
        if self._parser.arriving is not None:
            self._parser.arriving.break_off(refusal.detail)
        elif self._serving is not None:
            self._last_request()
        else:
            self.write(_refused(refusal))
            self._linger()

    # What exchanges and `Connections` call

    def write(self, data: bytes | memoryview) -> None:
        """Send bytes."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    async def writable(self, unsent: int = 0) -> None:
        """Wait until the client has taken most of what was sent, while `unsent` bytes wait."""
        if self._writable is not None:
            if unsent:
                self._connections.unread_answers.hold(self, unsent)
            await self._writable

    def pause_reading(self) -> None:
        """Read nothing until told to."""
        if self._transport is not None and self._transport.is_reading():
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read again, first what was kept, unless enough requests wait."""
        if self._unread and not self._deaf and not self.has_enough():
            unread, self._unread = self._unread, b""
            self._connections.unread_requests.release(self)
            self.data_received(unread)
        if not self._deaf and (self._unread or (self.waiting and self.has_enough())):
            return
        transport = self._transport
        if transport is not None and not transport.is_closing() and not transport.is_reading():
            transport.resume_reading()

    def drop(self) -> None:
        """End the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    def close_if_idle(self) -> None:
        """End the connection, unless a request is being served."""
        if self._serving is None and self._transport is not None:
            self._transport.close()

    def overdue(self, now: float, head_seconds: float) -> bool:
        """Return whether the client has been slow for longer than it may be."""
        if self._paused_since is not None and now - self._paused_since > STALLED_SECONDS:
            return True
        if self._lingers_since is not None:
            return now - self._lingers_since > LINGER_SECONDS
        return self._serving is None and now - self.quiet_since > head_seconds


def _refused(refusal: Refusal) -> bytes:
    """Write the whole answer to a request that never reached the app."""
    body = encode(refusal, secrets.token_hex(16))
    phrase = HTTPStatus(refusal.status).phrase
    head = (
        f"HTTP/1.1 {refusal.status} {phrase}\r\ncontent-type: {MEDIA_TYPE.decode()}\r\n"
        f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
    )
    return head.encode() + body
