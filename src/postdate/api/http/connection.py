"""A client's connection: bytes in, requests by httptools, answers out, one after the other."""

import asyncio
import contextlib
import secrets
import socket
import time
from collections import deque
from http import HTTPStatus
from typing import Final, cast
from urllib.parse import unquote

import httptools
from starlette.types import ASGIApp, Scope

from postdate.api.http.connection_registry import Connections
from postdate.api.http.exchange import Exchange
from postdate.api.http.problem import MEDIA_TYPE, encode
from postdate.model.error import Code, Refusal
from postdate.model.log import Log

HEAD_BYTES: Final = 64 * 1024
HEADERS: Final = 200
"""The longest head, and the most headers in it."""

PIPELINED: Final = 8
"""How many requests may wait behind the one being served before nothing more is read."""

LINGER_SECONDS: Final = 2.0
"""How long a client that was answered early may go on sending what is thrown away."""

STALLED_SECONDS: Final = 60.0
"""How long a client may leave its answer unread before the connection is dropped."""

_log = Log()


class _HeadError(Exception):
    """The parser could read the head of a request, but we do not serve it."""

    def __init__(self, code: Code, reason: str) -> None:
        super().__init__(reason)
        self.code = code


_TOO_LONG: Final = f"it has more than {HEAD_BYTES} bytes or {HEADERS} headers"


class Connection(asyncio.Protocol):
    """Serves the requests of one client. `Connections` decides how many such there may be."""

    def __init__(self, app: ASGIApp, connections: Connections) -> None:
        self._app = app
        self._connections = connections
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self.address = ""
        self._client: tuple[str, int] = ("", 0)
        self._server: tuple[str, int] = ("", 0)
        self.quiet_since = time.monotonic()
        """Since when no request is being served: a head may be on its way."""
        # What still comes is thrown away.
        self._deaf = False
        self._lingers_since: float | None = None
        self._paused_since: float | None = None
        self._writable: asyncio.Future[None] | None = None
        self._head_bytes = 0
        # Whether the parser has reported the head; until then it buffers what it receives.
        self._told = False
        self._untold_bytes = 0
        self._url = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._serving: Exchange | None = None
        self._arriving: Exchange | None = None
        self._waiting: deque[Exchange] = deque()
        self._task: asyncio.Task[None] | None = None

    # What the transport calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the connection in, if there is room."""
        self._transport = cast("asyncio.Transport", transport)
        peer, own = transport.get_extra_info("peername"), transport.get_extra_info("sockname")
        self._client = (peer[0], peer[1]) if peer else ("", 0)
        self._server = (own[0], own[1]) if own else ("", 0)
        self.address = self._client[0]
        if opened := transport.get_extra_info("socket"):
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if not self._connections.admit(self):
            self.drop()

    def connection_lost(self, _: Exception | None) -> None:
        """Tell whoever serves that the client has gone."""
        self._connections.leave(self)
        self._transport = None
        self.resume_writing()
        for exchange in (self._serving, *self._waiting):
            if exchange is not None:
                exchange.end()
        self._waiting.clear()

    def pause_writing(self) -> None:
        """Record that the client reads its answer more slowly than it is sent."""
        self._paused_since = time.monotonic()
        self._writable = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        """Record that the client has caught up."""
        self._paused_since = None
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
        self._writable = None

    def data_received(self, data: bytes) -> None:
        """Read what came; what cannot be read ends the connection."""
        if self._deaf:
            return
        try:
            self._told = False
            self._feed(data)
            self._count_untold(len(data))
        except httptools.HttpParserUpgrade:
            self._last_request()
        except (httptools.HttpParserError, _HeadError) as error:
            reason = error.__context__ if isinstance(error.__context__, _HeadError) else error
            code = reason.code if isinstance(reason, _HeadError) else Code.AMBIGUOUS_REQUEST
            self._unreadable(Refusal(code, f"The request cannot be read: {reason}."))

    def _feed(self, data: bytes) -> None:
        """Let the parser read; who would rather speak another protocol is served in this one.

        The parser passes over the body of such a request (Java's client asks with each of its first
        ones, `curl --http2` too): its head is read again without the wish.
        """
        rest = memoryview(data)
        while True:
            try:
                self._parser.feed_data(rest)
            except httptools.HttpParserUpgrade as wish:
                if not self._is_read_over():
                    raise
                rest = rest[wish.args[0] :]
                head = self._head_without_upgrade()
                self._parser = httptools.HttpRequestParser(self)
                self._parser.feed_data(head)
            else:
                return

    def _is_read_over(self) -> bool:
        """Return whether a request has a wish that may be passed over; a tunnel has no other."""
        return self._parser.should_upgrade() and self._parser.get_method() != b"CONNECT"

    def _head_without_upgrade(self) -> bytes:
        version = self._parser.get_http_version().encode()
        lines = [self._parser.get_method() + b" " + self._url + b" HTTP/" + version]
        lines += [name + b": " + value for name, value in self._headers if name != b"upgrade"]
        return b"\r\n".join(lines) + b"\r\n\r\n"

    def _count_untold(self, size: int) -> None:
        """Limit what the parser buffers: it reports a header only when it is complete."""
        self._untold_bytes = 0 if self._told else self._untold_bytes + size
        if self._untold_bytes > HEAD_BYTES:
            raise _HeadError(Code.HEAD_TOO_LARGE, _TOO_LONG)

    def eof_received(self) -> bool:
        """Close when the client has: half a connection is not served."""
        return False

    # What the parser calls

    def on_message_begin(self) -> None:
        """Begin a request."""
        self._told = True
        self._url, self._headers, self._head_bytes = b"", [], 0
        self.quiet_since = time.monotonic()

    def on_url(self, url: bytes) -> None:
        """Take a part of the target."""
        self._url += url
        self._count(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header."""
        self._headers.append((name.lower(), value))
        self._count(len(name) + len(value) + 4)

    def _count(self, size: int) -> None:
        self._told = True
        self._head_bytes += size
        if self._head_bytes > HEAD_BYTES or len(self._headers) > HEADERS:
            raise _HeadError(Code.HEAD_TOO_LARGE, _TOO_LONG)

    def on_headers_complete(self) -> None:
        """Serve the request, at once or after those before it."""
        if self._is_read_over():
            return
        version = self._parser.get_http_version()
        if version not in {"1.0", "1.1"}:
            raise _HeadError(Code.AMBIGUOUS_REQUEST, f"HTTP/{version} is not supported")
        headers = dict(self._headers)
        if version == "1.1" and b"host" not in headers:
            raise _HeadError(Code.AMBIGUOUS_REQUEST, "the header Host is missing")
        expects = version == "1.1" and headers.get(b"expect", b"").lower() == b"100-continue"
        exchange = Exchange(
            self,
            self._scope(version),
            keep_alive=self._parser.should_keep_alive() and not self._connections.closing,
            expects_continue=expects,
        )
        # The parser reports trailers like headers: they are counted and ignored.
        self._headers = []
        self._arriving = exchange
        if self._serving is None:
            self._serve(exchange)
            return
        self._waiting.append(exchange)
        if len(self._waiting) >= PIPELINED:
            self.pause_reading()

    def on_body(self, body: bytes) -> None:
        """Hand on a part of the body."""
        self._told = True
        if self._arriving is not None:
            self._arriving.feed(body)

    def on_message_complete(self) -> None:
        """Record the end of a request."""
        if self._arriving is not None:
            self._arriving.feed_end()
            self._arriving = None

    def _scope(self, version: str) -> Scope:
        target = self._url
        if not target.startswith(b"/"):
            with contextlib.suppress(httptools.HttpParserInvalidURLError):
                parsed = httptools.parse_url(target)
                query = b"?" + parsed.query if parsed.query else b""
                target = (parsed.path or b"/") + query
        raw_path, _, query_string = target.partition(b"?")
        path = raw_path.decode("latin-1")
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": version,
            "method": self._parser.get_method().decode("ascii"),
            "scheme": "http",
            "path": unquote(path) if "%" in path else path,
            "raw_path": raw_path,
            "query_string": query_string,
            "root_path": "",
            "headers": self._headers,
            "client": self._client,
            "server": self._server,
        }

    # Serving

    def _serve(self, exchange: Exchange) -> None:
        self._serving = exchange
        self._connections.busy(self)
        self._task = asyncio.get_running_loop().create_task(self._answer(exchange))

    async def _answer(self, exchange: Exchange) -> None:
        try:
            # A client that does not take its answers is owed no more of them.
            await self.writable()
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
        elif self._waiting:
            self._serve(self._waiting.popleft())
            self.resume_reading()
        else:
            self._connections.idle(self)
            self.resume_reading()  # the app may have left the body lying

    def _linger(self) -> None:
        """Let the client finish sending, otherwise it would never read the early answer."""
        self._deaf, self._lingers_since = True, time.monotonic()
        self._connections.idle(self)
        self.resume_reading()
        if self._transport is not None and self._transport.can_write_eof():
            self._transport.write_eof()

    def _last_request(self) -> None:
        """Serve what came, and read nothing behind it."""
        self._deaf = True
        last = self._waiting[-1] if self._waiting else self._serving
        if last is not None:
            last.keep_alive = False
        self.pause_reading()

    def _unreadable(self, refusal: Refusal) -> None:
        """Refuse what cannot be read, after the answers to what could be."""
        self._deaf = True
        if self._arriving is not None:
            self._arriving.break_off()
        elif self._serving is not None:
            self._last_request()
        else:
            self.write(_refused(refusal))
            self._linger()

    # What exchanges and `Connections` call

    def write(self, data: bytes) -> None:
        """Send bytes."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    async def writable(self) -> None:
        """Wait until the client has taken most of what was sent."""
        if self._writable is not None:
            await self._writable

    def pause_reading(self) -> None:
        """Read nothing until told to."""
        if self._transport is not None and self._transport.is_reading():
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read again, unless enough requests wait."""
        transport = self._transport
        if len(self._waiting) >= PIPELINED and not self._deaf:
            return
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
