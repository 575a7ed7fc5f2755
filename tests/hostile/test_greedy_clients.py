"""Clients that send without end, or never read: what they cost here is bounded."""

import asyncio
import socket
from contextlib import suppress
from typing import Any

import pytest

from postdate.api.http import connection
from postdate.api.http.endpoint import Body, Call, Reply
from support.raw_http import make_app, read_answer, serving, until
from support.sample_app import endpoint

ASK = b"GET /api/v1/large HTTP/1.1\r\nhost: x\r\n\r\n"
POST = b"POST /api/v1/thing HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
LARGE = b"x" * 500_000


class Thing(Body):
    """Some body."""


class Counted:
    """Counts how often a large answer was made."""

    def __init__(self) -> None:
        self.made = 0

    async def large(self, _: Call[Any, None, None]) -> Reply:
        self.made += 1
        return Reply(LARGE)

    def app(self) -> Any:
        return make_app(
            [
                endpoint("GET", "/large", self.large, scope=None, returns=None),
                endpoint("POST", "/thing", self.large, scope=None, returns=None, body=Thing),
            ]
        )


async def test_a_client_that_reads_nothing_is_not_answered_without_end() -> None:
    counted = Counted()
    async with serving(counted.app()) as running:
        loop = asyncio.get_running_loop()
        with socket.create_connection(("127.0.0.1", running.port)) as client:
            client.setblocking(False)
            await loop.sock_sendall(client, ASK * 200)
            await until(lambda: counted.made > 0)
            # What the two ends of a connection hold between them is a few megabytes.
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(1):
                    await until(lambda: counted.made >= 40)


async def test_requests_that_wait_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting: list[int] = []
    serve = connection.Connection._serve

    def watched(self: connection.Connection, exchange: Any) -> None:
        waiting.append(len(self._waiting))
        serve(self, exchange)

    monkeypatch.setattr(connection.Connection, "_serve", watched)
    small = b"GET /a HTTP/1.1\r\nhost: x\r\n\r\n"
    count = 40_000
    async with serving(Counted().app()) as running:
        reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
        writer.write(small * count)
        with suppress(TimeoutError):
            async with asyncio.timeout(5):
                while len(waiting) < 200:
                    await reader.read(65536)
        writer.transport.abort()
    # One read of the socket may bring many requests: the next has to wait until they are served.
    most = 256 * 1024 // len(small)
    assert max(waiting) <= most + connection.PIPELINED


async def test_a_header_without_end_is_refused_before_it_ends() -> None:
    async with serving(Counted().app()) as running:
        reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
        writer.write(b"GET /healthz HTTP/1.1\r\nhost: x\r\nx-a: ")
        for _ in range(16):
            writer.write(b"a" * 65536)
        answer = await read_answer(reader, 5)
        writer.close()
    assert (answer.status, answer.json["code"]) == (431, "head_too_large")


async def test_a_trailer_without_end_is_refused_before_it_ends() -> None:
    async with serving(Counted().app()) as running:
        reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
        writer.write(POST + b"transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nx-a: ")
        for _ in range(16):
            writer.write(b"a" * 65536)
        answer = await read_answer(reader, 5)
        writer.close()
    assert (answer.status, answer.json["code"]) == (400, "body_incomplete")


async def test_the_next_request_is_read_though_nobody_read_the_last_body() -> None:
    body = b"x" * 100_000
    async with serving(Counted().app()) as running:
        reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
        for size in (len(body), 0):
            head = b"POST /api/v1/large HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % size
            writer.write(head + body[:size])
            answer = await read_answer(reader, 5)
            assert answer.status == 405
            if answer.headers.get("connection") == "close":
                # The body came in pieces and was not waited for.
                assert await asyncio.wait_for(reader.read(), 5) == b""
                break
        writer.close()


async def test_an_answer_before_the_end_of_the_body_says_that_it_is_the_last() -> None:
    head = b"POST /api/v1/large HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\n"
    async with serving(Counted().app()) as running:
        reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
        writer.write(head)
        answer = await read_answer(reader, 5)
        assert (answer.status, answer.headers.get("connection")) == (405, "close")
        writer.close()
