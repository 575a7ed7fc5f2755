"""Build and send answers: every one carries the security headers and the request id."""

import asyncio
from collections.abc import AsyncIterator
from typing import Final, NamedTuple

import msgspec
from starlette.types import Message, Receive, Send

from postdate.http import problem
from postdate.http.disconnect import until_gone
from postdate.http.endpoint import Reply
from postdate.http.problem import Headers
from postdate.words.error import Refusal

SECURITY_HEADERS: Final[Headers] = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cache-control", b"no-store"),
]
JSON: Final = (b"content-type", b"application/json")
_PROBLEM: Final = (b"content-type", problem.MEDIA_TYPE)
_encode: Final = msgspec.json.Encoder().encode


class OutgoingAnswer(NamedTuple):
    """A response: its status, its own headers, and its body as bytes or a stream."""

    status: int
    headers: Headers
    body: bytes | AsyncIterator[bytes]


def from_reply(reply: Reply | msgspec.Struct, status: int) -> OutgoingAnswer:
    """Turn what a handler returned into an answer."""
    if not isinstance(reply, Reply):
        return OutgoingAnswer(status, [JSON], _encode(reply))
    own = [
        (name.lower().encode(), value.encode("latin-1")) for name, value in reply.headers.items()
    ]
    if reply.body is None:
        return OutgoingAnswer(reply.status or 204, own, b"")
    if not own or all(name != b"content-type" for name, _ in own):
        own.append(JSON)
    body = _encode(reply.body) if isinstance(reply.body, msgspec.Struct) else reply.body
    return OutgoingAnswer(reply.status or status, own, body)


def from_refusal(refusal: Refusal, request_id: str) -> OutgoingAnswer:
    """Turn a refusal into a problem answer."""
    own = [_PROBLEM, *problem.headers(refusal)]
    return OutgoingAnswer(refusal.status, own, problem.encode(refusal, request_id))


async def send_answer(
    send: Send, receive: Receive, answer: OutgoingAnswer, request_id: str
) -> None:
    """Send an answer with the headers that every answer has."""
    headers = [*answer.headers, *SECURITY_HEADERS, (b"x-request-id", request_id.encode())]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    if isinstance(answer.body, bytes):
        await send({"type": "http.response.body", "body": answer.body, "more_body": False})
    else:
        await _stream(send, receive, answer.body)


async def _stream(send: Send, receive: Receive, chunks: AsyncIterator[bytes]) -> None:
    # Parts for a client that has gone are thrown away without a word: only `receive` tells.
    pump = asyncio.create_task(_pump(send, chunks))
    gone = asyncio.create_task(until_gone(receive))
    try:
        await asyncio.wait({pump, gone}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        gone.cancel()
        pump.cancel()
        await asyncio.wait({pump, gone})
    if not pump.cancelled():
        pump.result()


async def _pump(send: Send, chunks: AsyncIterator[bytes]) -> None:
    async for chunk in chunks:
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


class PageSender:
    """Wraps `send` for pages: adds the headers a page did not set and remembers the status."""

    __slots__ = ("_request_id", "_send", "status")

    def __init__(self, send: Send, request_id: str) -> None:
        self._send = send
        self._request_id = request_id
        self.status: int | None = None

    async def __call__(self, message: Message) -> None:
        """Pass a message on."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            given = list(message["headers"])
            names = {name.lower() for name, _ in given}
            given += [pair for pair in SECURITY_HEADERS if pair[0] not in names]
            given.append((b"x-request-id", self._request_id.encode()))
            message = {**message, "headers": given}
        await self._send(message)
