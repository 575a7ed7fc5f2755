"""Requests that two readers would read in two ways are refused, and nothing is read after them."""

import asyncio
from typing import Any

import pytest

from postdate.http.endpoint import Body, Call, Reply
from postdate.http.head import ONCE, ambiguity
from support.raw_http import Answered, make_app, read_answer, serving
from support.sample_app import endpoint

HEAD = b"POST /api/v1/thing HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
CHUNKS = b"\r\n2\r\n{}\r\n0\r\n\r\n"
NEXT = b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n"


class Thing(Body):
    """Some body."""


async def thing(_: Call[Any, Thing, None]) -> Reply:
    return Reply(b"{}")


def app() -> Any:
    return make_app([endpoint("POST", "/thing", thing, scope=None, returns=None, body=Thing)])


@pytest.mark.parametrize("name", sorted(ONCE - {b"transfer-encoding", b"content-length"}))
async def test_a_header_that_says_one_thing_is_given_once(name: bytes) -> None:
    data = HEAD + b"content-length: 2\r\n" + (name + b": x\r\n") * 2 + b"\r\n{}"
    async with serving(app()) as running:
        answer = await running.raw(data)
    assert (answer.status, answer.json["code"]) == (400, "ambiguous_request")
    assert answer.json["field"] == name.decode()
    assert answer.headers["connection"] == "close"


async def test_pages_are_held_to_it_too() -> None:
    async with serving(app()) as running:
        answer = await running.raw(b"GET /healthz HTTP/1.1\r\nhost: x\r\nhost: y\r\n\r\n")
    assert (answer.status, answer.json["code"]) == (400, "ambiguous_request")


@pytest.mark.parametrize(
    "coding", [b"gzip, chunked", b"identity\r\ntransfer-encoding: chunked", b"chunked, chunked"]
)
async def test_a_body_is_coded_as_chunks_alone(coding: bytes) -> None:
    async with serving(app()) as running:
        answer = await running.raw(HEAD + b"transfer-encoding: " + coding + b"\r\n" + CHUNKS)
    assert answer.status == 400


@pytest.mark.parametrize("name", sorted(ONCE - {b"transfer-encoding", b"content-length"}))
async def test_a_trailer_is_no_header(name: bytes) -> None:
    # A header that is in the head and behind the body was refused as given twice.
    head = HEAD + b"transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n"
    async with serving(app()) as running:
        reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
        writer.write(head + b"host: y\r\n" + name + b": x\r\n\r\n")
        assert (await read_answer(reader)).status == 200
        writer.close()


async def test_a_request_follows_chunks() -> None:
    async with serving(app()) as running:
        reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
        writer.write(HEAD + b"transfer-encoding: chunked\r\n" + CHUNKS + NEXT)
        assert [(await read_answer(reader)).status for _ in range(2)] == [200, 200]
        writer.close()


@pytest.mark.parametrize("first", [True, False])
async def test_a_length_beside_chunks_is_refused(*, first: bool) -> None:
    length, coding = b"content-length: 5\r\n", b"transfer-encoding: chunked\r\n"
    headers = length + coding if first else coding + length
    async with serving(app()) as running:
        reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
        writer.write(HEAD + headers + CHUNKS + NEXT)
        answer = await read_answer(reader)
        assert (answer.status, answer.json["code"]) == (400, "ambiguous_request")
        assert await asyncio.wait_for(reader.read(), 5) == b""
        writer.close()


@pytest.mark.parametrize(
    "head",
    [
        b"GET /healthz HTTP/1.1\nhost: x\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nhost: x\nx-a: b\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nhost: x\r\n\n",
        b"GET /healthz HTTP/1.1\r\nhost: x\n\n",
    ],
)
async def test_a_bare_line_feed_ends_no_line(head: bytes) -> None:
    async with serving(app()) as running:
        answer = await running.raw(head)
    assert (answer.status, answer.json["code"]) == (400, "ambiguous_request")
    assert answer.headers["connection"] == "close"


@pytest.mark.parametrize(
    "head", [b"GET /healthz\r\n\r\n", b"GET /healthz HTTP/1.1\r\nx-a: b\r\n\r\n"]
)
async def test_what_names_no_version_or_host_is_refused(head: bytes) -> None:
    async with serving(app()) as running:
        answer = await running.raw(head)
    assert (answer.status, answer.json["code"]) == (400, "ambiguous_request")


@pytest.mark.parametrize("before", [b"\n", b"\n\n", b"\r\n\n", b"\r", b"\r\r\n", b"\r\n\r\n"])
@pytest.mark.parametrize("apart", [False, True])
async def test_what_stands_before_a_request_is_refused(before: bytes, *, apart: bool) -> None:
    answer = await _asked([before, NEXT] if apart else [before + NEXT])
    assert (answer.status, answer.json["code"]) == (400, "ambiguous_request")
    assert "before it" in answer.json["detail"]


@pytest.mark.parametrize("pieces", [[b"\r\n" + NEXT], [b"\r", b"\n" + NEXT], [b"\r\n", NEXT]])
async def test_an_empty_line_before_a_request_is_passed_over(pieces: list[bytes]) -> None:
    assert (await _asked(pieces)).status == 200


async def test_an_empty_line_after_a_body_is_passed_over() -> None:
    answer = await _asked([HEAD + b"content-length: 2\r\n\r\n{}\r\n" + NEXT])
    assert answer.status == 200


@pytest.mark.parametrize(
    "line",
    [
        b"GET  /healthz HTTP/1.1",
        b"GET /healthz  HTTP/1.1",
        b"GET /healthz HTTP/1.1 ",
        b" GET /healthz HTTP/1.1",
        b"OPTIONS /healthz RTSP/1.0",
        b"DESCRIBE rtsp://x/ RTSP/1.0",
        b"SOURCE /healthz ICE/1.0",
        b"GET /healthz http/1.1",
        b"GET /healthz HTTP/1.1\r",
        b"GET /healthz HTTP/11",
    ],
)
@pytest.mark.parametrize("pieces", [1, 7, 1000])
async def test_a_first_line_is_written_in_one_way(line: bytes, pieces: int) -> None:
    data = line + b"\r\nhost: x\r\n\r\n"
    answer = await _asked([data[at : at + pieces] for at in range(0, len(data), pieces)])
    assert (answer.status, answer.json["code"]) == (400, "ambiguous_request")
    assert answer.headers["connection"] == "close"


async def test_the_first_line_of_the_second_request_is_read_as_strictly() -> None:
    body = HEAD + b"content-length: 2\r\n\r\n{}"
    chunks = HEAD + b"transfer-encoding: chunked\r\n" + CHUNKS
    for first in (body, chunks, NEXT):
        async with serving(app()) as running:
            reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
            writer.write(first)
            assert (await read_answer(reader)).status == 200
            writer.write(b"GET  /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
            assert (await read_answer(reader)).status == 400
            writer.close()


async def test_nothing_follows_chunks_of_http_1_0() -> None:
    head = HEAD.replace(b"HTTP/1.1", b"HTTP/1.0") + b"connection: keep-alive\r\n"
    async with serving(app()) as running:
        reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
        writer.write(head + b"transfer-encoding: chunked\r\n" + CHUNKS + NEXT)
        answer = await read_answer(reader)
        assert answer.status == 200
        assert answer.headers.get("connection") != "keep-alive"
        assert await asyncio.wait_for(reader.read(), 5) == b""
        writer.close()


@pytest.mark.parametrize("chunk", [b"x\r\n", b"2\r\n{}}\r\n", b"-2\r\n{}\r\n", b"2\n{}\r\n"])
async def test_a_malformed_chunk_is_called_one(chunk: bytes) -> None:
    answer = await _asked([HEAD + b"transfer-encoding: chunked\r\n\r\n" + chunk])
    assert (answer.status, answer.json["code"]) == (400, "body_incomplete")
    assert answer.json["detail"].startswith("The request cannot be read: ")
    assert "chunk" in answer.json["detail"]


async def _asked(pieces: list[bytes]) -> Answered:
    async with serving(app()) as running:
        reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
        for piece in pieces:
            writer.write(piece)
            await asyncio.sleep(0)
        try:
            return await read_answer(reader)
        finally:
            writer.close()


@pytest.mark.parametrize(
    "head", [b"x-a: " + b"a" * 70_000, b"\r\n".join(b"x-%d: 1" % n for n in range(300))]
)
async def test_a_head_that_is_too_large_is_refused(head: bytes) -> None:
    async with serving(app()) as running:
        answer = await running.raw(b"GET /healthz HTTP/1.1\r\nhost: x\r\n" + head + b"\r\n\r\n")
    assert (answer.status, answer.json["code"]) == (431, "head_too_large")


@pytest.mark.parametrize(
    "line",
    [
        b"x-a: b\rx-c: d\r\n",
        b"x-a: b\r\n folded\r\n",
        b"x-a : b\r\n",
        b"x-a: \x00\r\n",
        b"content-length: 2\r\ncontent-length: 3\r\n",
        b"content-length: 2, 2\r\n",
        b"content-length: +2\r\n",
        b"content-length: 99999999999999999999\r\n",
        b"transfer-encoding: xchunked\r\n",
        b"transfer-encoding: chunked, identity\r\n",
    ],
)
async def test_the_server_refuses_what_we_never_see(line: bytes) -> None:
    async with serving(app()) as running:
        answer = await running.raw(HEAD + line + b"\r\n{}")
    assert answer.status == 400


def test_a_length_beside_chunks_is_refused_where_it_can_be_seen() -> None:
    both = [(b"content-length", b"2"), (b"transfer-encoding", b"chunked")]
    assert ambiguity(both) is not None
    assert ambiguity(both[1:]) is None
    assert ambiguity(both[:1]) is None
