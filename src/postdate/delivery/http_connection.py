"""One connection to a receiver: a request goes out, and its answer is read as it arrives."""

import asyncio
import select
import socket
from typing import Final, cast

from postdate.delivery.answer_parser import HEAD_BYTES, AnswerParser

TIMED_OUT: Final = "the time is over"
CLOSED: Final = "the receiver closed the connection"


class HttpConnection(asyncio.Protocol):
    """Speaks HTTP/1.1 with one receiver, one request at a time."""

    __slots__ = ("_early", "_readable", "_transport", "_waiter", "answer", "idle_since", "lost")

    def __init__(self, opened: socket.socket) -> None:
        self.answer = AnswerParser()
        self.lost: str | None = None
        """Why nothing can be sent any more."""
        self.idle_since = 0.0
        self._readable = select.poll()
        self._readable.register(opened, select.POLLIN)
        self._transport: asyncio.Transport
        self._waiter: asyncio.Future[str | None] | None = None
        self._early = b""

    def send(self, request: bytes) -> "asyncio.Future[str | None]":
        """Write a whole request; the future tells what broke the answer off, if anything did."""
        self._waiter = waiter = asyncio.get_running_loop().create_future()
        self.answer.begin()
        self._transport.write(request)
        if self._early:
            early, self._early = self._early, b""
            self.data_received(early)
        return waiter

    def time_out(self) -> None:
        """Stop waiting for the answer."""
        self._finish(TIMED_OUT)

    def is_quiet(self) -> bool:
        """Tell whether an idle connection can be used: not closed, and nothing unasked to read.

        The event loop may not have seen yet what the kernel knows. Once bytes are written, a
        connection that closes leaves doubt; before, it is only another connection to make.
        """
        return self.lost is None and not self._early and not self._readable.poll(0)

    def is_reusable(self) -> bool:
        """Tell whether the exchange is over in both directions, so that another may follow."""
        return (
            self.answer.reusable
            and self.lost is None
            and self._waiter is None
            and not self._transport.get_write_buffer_size()
        )

    def abort(self) -> None:
        """Close at once: a polite end would wait for a receiver that reads nothing."""
        self._transport.abort()

    # Callbacks of the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember where to write; uvloop's transports are none of asyncio's classes."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Read on; what comes before the request waits for it."""
        if self._waiter is None:
            self._early += data
            if len(self._early) > HEAD_BYTES:
                self.abort()
        elif self.answer.feed(data):
            self._finish(self.answer.failure)

    def eof_received(self) -> None:
        """End the answer: a receiver that has stopped sending has nothing more to say."""
        self._lose(CLOSED)

    def connection_lost(self, error: Exception | None) -> None:
        """End the exchange that was under way."""
        self._lose(CLOSED if error is None else str(error) or type(error).__name__)

    def _lose(self, reason: str) -> None:
        if self.lost is None:
            self.lost = reason
            self._finish(None if self.answer.end() else reason)

    def _finish(self, reason: str | None) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(reason)
