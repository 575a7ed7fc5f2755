"""Read the requests of one connection with httptools, one at a time and no more than may wait.

httptools reads all that it is fed and cannot be stopped in between. It is therefore fed in slices
that end where a request can end, so that the bytes of later requests stay unread.
"""

import contextlib
import re
import time
from collections import deque
from typing import TYPE_CHECKING, Final, Protocol
from urllib.parse import unquote

import httptools

from postdate.http.exchange import Exchange, Wire
from postdate.words.error import Code

if TYPE_CHECKING:
    from starlette.types import Scope

HEAD_BYTES: Final = 64 * 1024
HEADERS: Final = 200
"""The longest head, and the most headers in it."""

_TOO_LONG: Final = f"it has more than {HEAD_BYTES} bytes or {HEADERS} headers"
_FIRST_LINE: Final = re.compile(rb"[^ \r\n]+ [^ \r\n]+ HTTP/[0-9]\.[0-9]\r\n")
_EMPTY_LINE: Final = b"\r\n"
_BEFORE: Final = "more than an empty line stands before it"
_ASGI: Final = {"version": "3.0", "spec_version": "2.3"}
_END: Final = b"\r\n\r\n"
"""Ends every head and every body in chunks."""


class HeadError(Exception):
    """The parser could read the head of a request, but we do not serve it."""

    def __init__(self, code: Code, reason: str) -> None:
        super().__init__(reason)
        self.code = code


def _ambiguous(reason: str) -> HeadError:
    return HeadError(Code.AMBIGUOUS_REQUEST, reason)


class LastRequestError(Exception):
    """The connection is to become a tunnel: nothing behind this request is ours to read."""


class RequestReceiver(Wire, Protocol):
    """The connection that the requests are read from: it serves them in their order."""

    client: tuple[str, int]
    server: tuple[str, int]
    quiet_since: float
    waiting: deque[Exchange]

    def has_enough(self) -> bool:
        """Return whether as many requests wait as may: nothing more shall be read for now."""

    def serve(self, exchange: Exchange) -> None:
        """Serve a request whose head has come, at once or after those before it."""


class RequestParser:
    """Reads requests, and refuses what a proxy in front might have read in another way."""

    def __init__(self, receiver: RequestReceiver) -> None:
        self._receiver = receiver
        self.arriving: Exchange | None = None
        """The request whose body is still on its way."""
        self._parser = httptools.HttpRequestParser(self)
        # Between two requests: the bytes of an empty line that may stand before the next one.
        self._between = True
        self._skipped = b""
        # What has come of the first line; None once it was checked.
        self._line: bytes | None = b""
        self._body_left = 0
        self._head_bytes = 0
        # Whether the parser has reported anything; until then it buffers what it receives.
        self._reported = False
        self._unreported_bytes = 0
        self._url = b""
        self._headers: list[tuple[bytes, bytes]] = []

    def feed(self, data: bytes) -> int:
        """Read until the receiver has enough; return how many bytes were read."""
        at, size, receiver = 0, len(data), self._receiver
        straddles = not (self._between or self._body_left)
        while at < size and not (receiver.waiting and receiver.has_enough()):
            if self._between and (data[at] in _EMPTY_LINE or self._skipped):
                at = self._skip_empty_line(data, at)
            # A slice holds no more than one end of a request.
            if self._body_left:
                stop = min(at + self._body_left, size)
                self._body_left -= stop - at
            elif straddles and at < len(_END) - 1:
                stop = at + 1  # the end may have begun with the last read
            else:
                found = data.find(_END, at)
                stop = size if found < 0 else found + len(_END)
            if self._line == b"" and _FIRST_LINE.match(data, at, stop):
                self._line = None
            elif self._line is not None:
                self._check_line(data[at:stop])
            self._reported = False
            try:
                self._parser.feed_data(data if stop - at == size else data[at:stop])
            except httptools.HttpParserUpgrade:
                self._read_over()
            self._unreported_bytes = 0 if self._reported else self._unreported_bytes + stop - at
            if self._unreported_bytes > HEAD_BYTES:
                raise HeadError(Code.HEAD_TOO_LARGE, _TOO_LONG)
            at = stop
        return at

    def _skip_empty_line(self, data: bytes, at: int) -> int:
        """Pass over one empty line before a request, as RFC 9112 asks; a bare end is refused."""
        while at < len(data) and self._skipped != _EMPTY_LINE:
            self._skipped += data[at : at + 1]
            if not _EMPTY_LINE.startswith(self._skipped):
                raise _ambiguous(_BEFORE)
            at += 1
        if at < len(data):
            if data[at] in _EMPTY_LINE:
                raise _ambiguous(_BEFORE)
            self._skipped = b""
        return at

    def _check_line(self, data: bytes) -> None:
        """Refuse a first line with two spaces or another protocol, which httptools lets pass."""
        line = (self._line or b"") + data
        if b"\n" not in line:
            self._line = line
        elif _FIRST_LINE.match(line):
            self._line = None
        else:
            raise _ambiguous(
                "its first line is not a method, a target and HTTP/1.1, as in RFC 9112"
            )

    def _read_over(self) -> None:
        """Serve a client in this protocol though it would rather speak another one.

        The parser passes over the body of such a request (Java's client asks with each of its first
        ones, `curl --http2` too): its head, with which the slice ended, is read again without the
        wish.
        """
        if not self._is_read_over():
            raise LastRequestError
        head = self._head_without_upgrade()
        self._parser = httptools.HttpRequestParser(self)
        self._parser.feed_data(head)
        if not self._between:
            self._line = None

    def _is_read_over(self) -> bool:
        """Return whether a request has a wish that may be passed over; a tunnel has no other."""
        return self._parser.should_upgrade() and self._parser.get_method() != b"CONNECT"

    def _head_without_upgrade(self) -> bytes:
        version = self._parser.get_http_version().encode()
        lines = [self._parser.get_method() + b" " + self._url + b" HTTP/" + version]
        lines += [name + b": " + value for name, value in self._headers if name != b"upgrade"]
        return b"\r\n".join(lines) + b"\r\n\r\n"

    # What httptools calls

    def on_message_begin(self) -> None:
        """Begin a request."""
        self._reported, self._between = True, False
        self._url, self._headers, self._head_bytes = b"", [], 0
        self._receiver.quiet_since = time.monotonic()

    def on_url(self, url: bytes) -> None:
        """Take a part of the target."""
        self._reported = True
        self._url += url
        self._head_bytes += len(url)
        if self._head_bytes > HEAD_BYTES:
            raise HeadError(Code.HEAD_TOO_LARGE, _TOO_LONG)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header."""
        self._reported = True
        self._headers.append((name.lower(), value))
        self._head_bytes += len(name) + len(value) + 4
        if self._head_bytes > HEAD_BYTES or len(self._headers) > HEADERS:
            raise HeadError(Code.HEAD_TOO_LARGE, _TOO_LONG)

    def on_headers_complete(self) -> None:
        """Have the request served, unless its head is read again without a wish."""
        parser = self._parser
        if parser.should_upgrade() and self._is_read_over():
            return
        version = parser.get_http_version()
        if version not in {"1.0", "1.1"}:
            raise _ambiguous(f"HTTP/{version} is not supported")
        # The parser reports trailers like headers: they are counted and ignored.
        headers, self._headers = self._headers, []
        named = dict(headers)
        if version == "1.1" and b"host" not in named:
            raise _ambiguous("the header Host is missing")
        self._body_left = int(named.get(b"content-length", b"0"))
        # RFC 9112: of a client that does not know chunks, what follows them is not to be believed.
        framed = version == "1.1" or b"transfer-encoding" not in named
        expects = b"expect" in named and version == "1.1"
        target = self._url if self._url.startswith(b"/") else _path_of(self._url)
        raw_path, _, query_string = target.partition(b"?")
        path = raw_path.decode("latin-1")
        scope: Scope = {
            "type": "http",
            "asgi": _ASGI,
            "http_version": version,
            "method": parser.get_method().decode("ascii"),
            "scheme": "http",
            "path": unquote(path) if "%" in path else path,
            "raw_path": raw_path,
            "query_string": query_string,
            "root_path": "",
            "headers": headers,
            "client": self._receiver.client,
            "server": self._receiver.server,
        }
        self.arriving = Exchange(
            self._receiver,
            scope,
            keep_alive=framed and parser.should_keep_alive(),
            expects_continue=expects and named[b"expect"].lower() == b"100-continue",
            head_bytes=self._head_bytes,
        )
        self._receiver.serve(self.arriving)

    def on_body(self, body: bytes) -> None:
        """Hand a part of the body to its request."""
        self._reported = True
        if self.arriving is not None:
            self.arriving.feed(body)

    def on_message_complete(self) -> None:
        """Record the end of a request."""
        self._between, self._line = True, b""
        if (arrived := self.arriving) is not None:
            arrived.complete, self.arriving = True, None
            if arrived.waiter is not None:
                arrived.wake()


def _path_of(target: bytes) -> bytes:
    """Return path and query of a target that is written as a whole URL."""
    with contextlib.suppress(httptools.HttpParserInvalidURLError):
        parsed = httptools.parse_url(target)
        return (parsed.path or b"/") + (b"?" + parsed.query if parsed.query else b"")
    return target
