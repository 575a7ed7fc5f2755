"""One request and its answer: the two callables that an ASGI app is given."""

import asyncio
import time
from email.utils import formatdate
from enum import Enum, auto
from http import HTTPStatus
from typing import Final, Protocol

from starlette.types import Message, Scope

from postdate.http.answer import JSON, SECURITY_HEADERS
from postdate.http.problem import Headers

BODY_BUFFER: Final = 64 * 1024
"""The bytes of a body that wait for the app; beyond them the connection is not read."""

PIECE_BYTES: Final = 64 * 1024
"""A longer answer is sent in pieces, as the client takes them."""

EXCHANGE: Final = "exchange"
"""In the scope: this exchange, for what comes or goes whole and needs no messages."""

UNREADABLE: Final = "unreadable"
"""In the message that no more comes: why the rest of the body cannot be read, if that is why."""

_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_STATUS_LINES: Final = {
    each.value: f"HTTP/1.1 {each.value} {each.phrase}".encode() for each in HTTPStatus
}
_CONSTANT: Final = {each: b": ".join(each) for each in (JSON, *SECURITY_HEADERS)}
"""The lines of headers that nearly every answer has."""

_EVERY: Final = b"\r\n".join(map(b": ".join, SECURITY_HEADERS))
"""The headers that every answer of the API has, as they are written."""

_WITHOUT_BODY: Final = frozenset({HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED})


class Wire(Protocol):
    """What an exchange needs of its connection."""

    def write(self, data: bytes | memoryview) -> None:
        """Send bytes."""

    async def writable(self, unsent: int = 0) -> None:
        """Wait until the client has taken most of what was sent, while `unsent` bytes wait."""

    def pause_reading(self) -> None:
        """Read nothing until told to."""

    def resume_reading(self) -> None:
        """Read again."""


class _Framing(Enum):
    """How the end of a body is marked."""

    LENGTH = auto()
    CHUNKS = auto()
    END = auto()
    """It ends with the connection."""
    NO_BODY = auto()


class Exchange:
    """Hands the body of one request to the app, and the app's answer to the connection."""

    __slots__ = (
        "_buffer",
        "_expects_continue",
        "_framing",
        "_given",
        "_head",
        "_head_bytes",
        "_unreadable",
        "_wire",
        "answered",
        "begun",
        "complete",
        "ended",
        "keep_alive",
        "scope",
        "waiter",
    )

    def __init__(
        self,
        wire: Wire,
        scope: Scope,
        *,
        keep_alive: bool,
        expects_continue: bool,
        head_bytes: int = 0,
    ) -> None:
        self.scope = scope
        scope[EXCHANGE] = self
        self.keep_alive = keep_alive
        self.complete = False
        """The whole request has arrived."""
        self.begun = False
        """Something of the answer was sent."""
        self.answered = False
        """All of the answer was sent."""
        self.ended = False
        """The client has gone."""
        self._wire = wire
        self._expects_continue = expects_continue
        # One piece of memory: a list of chunks of a byte each would cost forty times their size.
        self._buffer: bytes | bytearray = b""
        self._head_bytes = head_bytes
        # Whether the app has been given the whole body.
        self._given = False
        self._unreadable: str | None = None
        self.waiter: asyncio.Future[None] | None = None
        """The receiver of the body, while it waits for more."""
        # The head of the answer waits for its first part, which tells how long it is.
        self._head: Message | None = None
        self._framing = _Framing.LENGTH

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the body."""
        if self.answered:
            return
        if not self._buffer:
            self._buffer = data
        else:
            if isinstance(self._buffer, bytes):
                self._buffer = bytearray(self._buffer)
            self._buffer += data
        if len(self._buffer) > BODY_BUFFER:
            self._wire.pause_reading()
        if self.waiter is not None:
            self.wake()

    @property
    def held_bytes(self) -> int:
        """Return how much of the request waits here for the app."""
        return self._head_bytes + len(self._buffer)

    def end(self) -> None:
        """Tell the app that the client has disconnected."""
        self.ended = True
        self.wake()

    def break_off(self, reason: str) -> None:
        """Tell the app that the rest of the body cannot be read; it may still answer."""
        self._unreadable = reason
        self.keep_alive = False
        self.wake()

    async def receive(self) -> Message:
        """Return the next part of the body; when all was given, wait until the client has gone."""
        if self._expects_continue and not self.begun:
            self._expects_continue = False
            self._wire.write(_CONTINUE)
        while not (self.ended or self.answered or self._unreadable):
            if self._buffer or (self.complete and not self._given):
                more = not self.complete
                return {"type": "http.request", "body": self._take_body(), "more_body": more}
            await self._wait()
        return {"type": "http.disconnect", UNREADABLE: self._unreadable}

    def whole_body(self) -> bytes | None:
        """Return the body where all of it has come; None where the app has to receive it."""
        if not self.complete or self._given or self._expects_continue:
            return None
        body, self._buffer, self._given = bytes(self._buffer), b"", True
        if len(body) > BODY_BUFFER:
            self._wire.resume_reading()
        return body

    def _take_body(self) -> bytes:
        """Return what has come of the body; where that was too much to go on, read again."""
        body, self._buffer = bytes(self._buffer), b""
        self._given = self.complete
        if len(body) > BODY_BUFFER:
            self._wire.resume_reading()
        return body

    def wake(self) -> None:
        """Let `receive` see what has changed."""
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(None)

    async def _wait(self) -> None:
        self.waiter = asyncio.get_running_loop().create_future()
        try:
            await self.waiter
        finally:
            self.waiter = None

    def answer(self, status: int, headers: Headers, body: bytes, request_id: bytes) -> None:
        """Send a whole answer with the headers that every answer has, in one write.

        It must not be longer than a piece. It is discarded when the client has disconnected.
        """
        scope = self.scope
        if not self.complete:
            # What still comes of the request is thrown away with the connection.
            self.keep_alive = False
        lines = [_STATUS_LINES.get(status) or b"HTTP/1.1 %d " % status]
        for name, value in headers:
            if name == b"connection" and value == b"close":
                self.keep_alive = False
            else:
                lines.append(name + b": " + value)
        lines += (
            b"x-request-id: " + request_id,
            _dated[1] if _dated[0] == int(time.time()) else _new_date(),
        )
        if status in _WITHOUT_BODY or scope["method"] == "HEAD":
            body = b""
        else:
            lines.append(b"content-length: %d" % len(body))
        if scope["http_version"] == "1.0":
            lines += [b"connection: keep-alive"] if self.keep_alive else []
        elif not self.keep_alive:
            lines.append(b"connection: close")
        head = b"\r\n".join(lines)
        if head.count(b"\n") != len(lines) - 1 or head.count(b"\r") != len(lines) - 1:
            raise ValueError("a header of the answer has a line break in it")
        if not self.ended:
            self._wire.write(b"%b\r\n%b\r\n\r\n%b" % (head, _EVERY, body))
            self.begun = self.answered = True
            if self.waiter is not None:
                self.wake()

    async def send(self, message: Message) -> None:
        """Send the next part of the answer; it is discarded when the client has disconnected."""
        if message["type"] == "http.response.start":
            self._head = message
            # A client that asks for the head alone waits for no part of a body or stream.
            if self.scope["method"] != "HEAD":
                return
        if self.answered or self.ended:
            return
        body, more = message.get("body", b""), message.get("more_body", False)
        parts = []
        if self._head is not None:
            parts.append(self._begin(self._head, None if more else len(body)))
            self._head, self.begun = None, True
        if self._framing is _Framing.CHUNKS:
            parts += [b"%x\r\n" % len(body), body, b"\r\n"] if body else []
            parts += [] if more else [b"0\r\n\r\n"]
        elif self._framing is not _Framing.NO_BODY:
            parts.append(body)
        if len(body) > PIECE_BYTES:
            await self._send_pieces(parts)
        else:
            self._wire.write(b"".join(parts))
        if more:
            await self._wire.writable()
        else:
            self.answered = True
            if self.waiter is not None:
                self.wake()

    async def _send_pieces(self, parts: list[bytes]) -> None:
        """Send a long answer as the client takes it, without a copy of it for each client."""
        for part in parts:
            rest = memoryview(part)
            while rest and not self.ended:
                self._wire.write(rest[:PIECE_BYTES])
                rest = rest[PIECE_BYTES:]
                await self._wire.writable(len(rest))

    def _begin(self, start: Message, length: int | None) -> bytes:
        """Write the head; `length` is that of the whole body, where it is known."""
        status = start["status"]
        if not self.complete:
            # What still comes of the request is thrown away with the connection.
            self.keep_alive = False
        lines = [_STATUS_LINES.get(status) or b"HTTP/1.1 %d " % status]
        sized = dated = False
        for header in start.get("headers", ()):
            if (line := _CONSTANT.get(header)) is not None:
                lines.append(line)
                continue
            name, value = header
            lines.append(name + b": " + value)
            match name.lower():
                case b"content-length":
                    sized = True
                case b"date":
                    dated = True
                case b"connection" if value.lower() == b"close":
                    self.keep_alive = False
        if not dated:
            lines.append(_dated[1] if _dated[0] == int(time.time()) else _new_date())
        lines += self._frame(status, length, sized=sized)
        head = b"\r\n".join(lines)
        if head.count(b"\n") != len(lines) - 1 or head.count(b"\r") != len(lines) - 1:
            raise ValueError("a header of the answer has a line break in it")
        return head + b"\r\n\r\n"

    def _frame(self, status: int, length: int | None, *, sized: bool) -> list[bytes]:
        """Choose how the body ends; return the headers that say it."""
        headers = []
        if status in _WITHOUT_BODY or self.scope["method"] == "HEAD":
            self._framing = _Framing.NO_BODY
        elif sized:
            self._framing = _Framing.LENGTH
        elif length is not None:
            headers.append(b"content-length: %d" % length)
        elif self.scope["http_version"] == "1.1":
            self._framing = _Framing.CHUNKS
            headers.append(b"transfer-encoding: chunked")
        else:
            self._framing, self.keep_alive = _Framing.END, False
        if not self.keep_alive and self.scope["http_version"] == "1.1":
            headers.append(b"connection: close")
        elif self.keep_alive and self.scope["http_version"] == "1.0":
            headers.append(b"connection: keep-alive")
        return headers


_dated: tuple[int, bytes] = (0, b"")


def _new_date() -> bytes:
    """Render the `Date` header, once a second."""
    global _dated  # noqa: PLW0603 - a cache of one
    now = int(time.time())
    _dated = now, b"date: " + formatdate(now, usegmt=True).encode()
    return _dated[1]
