"""Clients that send without end, or never read: what they cost here is bounded."""

import asyncio
import socket
import sys
from collections import Counter
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import pytest

from postdate.http import connection, unread
from postdate.http.endpoint import Body, Call, Reply
from postdate.http.request_starts import STARTS_AT_ONCE, RequestStarts
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
    start = connection.ServerConnection._start

    def watched(self: connection.ServerConnection, exchange: Any) -> None:
        waiting.append(len(self.waiting))
        start(self, exchange)

    monkeypatch.setattr(connection.ServerConnection, "_start", watched)
    small = b"GET /a HTTP/1.1\r\nhost:\r\n\r\n"
    count = 10_000
    async with serving(Counted().app()) as running:
        reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
        writer.write(small * count)
        with suppress(TimeoutError):
            async with asyncio.timeout(5):
                while len(waiting) < 200:
                    await reader.read(65536)
        writer.transport.abort()
    assert len(waiting) >= 200
    assert max(waiting) <= connection.PIPELINED


async def test_large_requests_that_wait_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[int] = []
    start = connection.ServerConnection._start

    def watched(self: connection.ServerConnection, exchange: Any) -> None:
        held.append(sum(each.held_bytes for each in self.waiting))
        start(self, exchange)

    monkeypatch.setattr(connection.ServerConnection, "_start", watched)
    body = b"1\r\n \r\n" * 15_000 + b"0\r\n\r\n"
    asks = [
        b"GET /a HTTP/1.1\r\nhost: x\r\nx-a: " + b"a" * 60_000 + b"\r\n\r\n",
        POST + b"content-length: 60000\r\n\r\n" + b" " * 60_000,
        POST + b"transfer-encoding: chunked\r\n\r\n" + body,
    ]
    async with serving(Counted().app()) as running:
        for ask in asks:
            reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
            writer.write(ask * 12)
            with suppress(TimeoutError):
                async with asyncio.timeout(5):
                    while len(held) < 12:
                        await reader.read(65536)
            writer.transport.abort()
            assert len(held) >= 12
            assert max(held) <= connection.WAITING_BYTES + 64 * 1024
            held.clear()


async def test_every_pipelined_request_is_answered_in_its_order() -> None:
    asks, statuses = [], []
    for number in range(300):
        asks.append(b"GET /api/v1/large%d HTTP/1.1\r\nhost: x\r\n\r\n" % number)
        statuses.append(404)
        if number % 7 == 0:
            asks.append(POST + b"content-length: 2\r\n\r\n{}")
            statuses.append(200)
        if number % 11 == 0:
            asks.append(
                POST + b"transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\na: b\r\n\r\n\r\n"
            )
            statuses.append(200)
    data = b"".join(asks)
    async with serving(Counted().app()) as running:
        for piece in (1, 3, 1000, len(data)):
            reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
            sending = asyncio.create_task(_send_in_pieces(writer, data, piece))
            assert [(await read_answer(reader)).status for _ in statuses] == statuses
            await sending
            writer.close()


async def _send_in_pieces(writer: asyncio.StreamWriter, data: bytes, piece: int) -> None:
    for at in range(0, len(data), piece):
        writer.write(data[at : at + piece])
        # Each piece is to arrive alone, where there are few.
        if piece >= 1000:
            await writer.drain()
            await asyncio.sleep(0)


async def test_answers_that_nobody_reads_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    # What the two ends of a connection hold between them is a few megabytes: the rest waits here.
    answer = b"x" * 16_000_000
    monkeypatch.setattr(sys.modules[__name__], "LARGE", answer)
    limit = 2 * len(answer)
    monkeypatch.setattr(unread, "ADDRESS_BYTES", limit)
    held: list[int] = []
    hold, drop = unread.UnreadBytes.hold, connection.ServerConnection.drop
    dropped: list[connection.ServerConnection] = []

    def watched(self: unread.UnreadBytes, slow: Any, size: int) -> None:
        hold(self, slow, size)
        held.append(self._of_address.total())

    def watched_drop(self: connection.ServerConnection) -> None:
        dropped.append(self)
        drop(self)

    monkeypatch.setattr(unread.UnreadBytes, "hold", watched)
    monkeypatch.setattr(connection.ServerConnection, "drop", watched_drop)
    async with serving(Counted().app()) as running:
        with ExitStack() as clients:
            for _ in range(8):
                client = socket.create_connection(("127.0.0.1", running.port))
                clients.enter_context(client)
                client.sendall(ASK)
            await until(lambda: bool(dropped))
    assert max(held) <= limit


def test_whoever_has_not_read_for_longest_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unread, "TOTAL_BYTES", 150)
    monkeypatch.setattr(unread, "ADDRESS_BYTES", 100)
    answers = unread.UnreadBytes(lambda address: address == "proxy")
    slow = {name: Slow(address=name[:-1]) for name in ("a1", "a2", "b1", "proxy1")}
    answers.hold(slow["a1"], 60)
    answers.hold(slow["b1"], 30)
    answers.hold(slow["a2"], 60)
    assert [name for name, each in slow.items() if each.dropped] == ["a1"]
    answers.hold(slow["proxy1"], 110)
    assert [name for name, each in slow.items() if each.dropped] == ["a1", "a2", "b1"]
    for each in slow.values():
        answers.release(each)
    assert not answers._sizes
    assert not answers._of_address


@dataclass(eq=False)
class Slow:
    """A client that reads nothing."""

    address: str
    dropped: bool = False

    def drop(self) -> None:
        self.dropped = True


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


async def test_requests_start_a_few_in_each_turn_of_the_loop() -> None:
    starts, started, seen = RequestStarts(), [0], []

    def start() -> None:
        started[0] += 1

    for _ in range(3 * STARTS_AT_ONCE):
        starts.add("", start)
    seen.append(started[0])
    while started[0] < 3 * STARTS_AT_ONCE:
        await asyncio.sleep(0)
        seen.append(started[0])
    assert max(b - a for a, b in pairwise([0, *seen])) == STARTS_AT_ONCE


async def test_an_address_with_many_requests_does_not_make_another_wait() -> None:
    starts, order = RequestStarts(), list[str]()
    for address in ["greedy"] * 100 + ["modest"]:
        starts.add(address, partial(order.append, address))
    await until(lambda: len(order) == 101)
    assert order.index("modest") <= 2 * STARTS_AT_ONCE


async def test_many_connections_with_one_request_each_share_the_turns_of_the_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    turn, started = [0], Counter[int]()
    start, loop = connection.ServerConnection._start, asyncio.get_running_loop()

    def count_turn() -> None:
        turn[0] += 1
        if started.total() < 50:
            loop.call_soon(count_turn)

    def watched(self: connection.ServerConnection, exchange: Any) -> None:
        started[turn[0]] += 1
        start(self, exchange)

    monkeypatch.setattr(connection.ServerConnection, "_start", watched)
    async with serving(Counted().app()) as running:
        clients = [socket.create_connection(("127.0.0.1", running.port)) for _ in range(50)]
        loop.call_soon(count_turn)
        for client in clients:
            client.sendall(b"GET /a HTTP/1.1\r\nhost:\r\n\r\n")
        await until(lambda: started.total() == 50)
        for client in clients:
            client.close()
    # A turn of the count may meet the ends of two turns of the starts.
    assert max(started.values()) <= 2 * STARTS_AT_ONCE
