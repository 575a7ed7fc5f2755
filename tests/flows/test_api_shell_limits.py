"""What the shell takes before it refuses: size, depth, pace, type."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import nullcontext

import pytest

from postdate.http import request_reader
from postdate.http.limit import RequestLimits
from postdate.http.server import ServerLimits
from postdate.words.error import RefusedError
from support.log import capture_logs
from support.raw_http import Running, read_answer, serving, until
from support.sample_app import KEY, Services, post, sample_app

LARGEST = 256 * 1024


@pytest.fixture(scope="module")
async def running() -> AsyncIterator[Running]:
    app = sample_app(receive_seconds=1.0)
    async with serving(app, ServerLimits(header_seconds=0.3)) as served:
        served.headers = {"authorization": f"Bearer {KEY}"}
        yield served


def head(*lines: str) -> bytes:
    sent = [
        "POST /api/v1/things HTTP/1.1",
        "host: x",
        f"authorization: Bearer {KEY}",
        "idempotency-key: k",
        "content-type: application/json",
        *lines,
    ]
    return "\r\n".join(sent).encode() + b"\r\n\r\n"


def padded(size: int) -> bytes:
    frame = b'{"amount":5,"note":""}'
    return frame[:-2] + b"x" * (size - len(frame)) + frame[-2:]


async def test_the_largest_body_passes_and_one_more_byte_does_not(running: Running) -> None:
    assert (await post(running, padded(LARGEST))).status == 201
    answer = await post(running, padded(LARGEST + 1))
    assert (answer.status, answer.json["code"]) == (413, "body_too_large")
    assert answer.json["max_bytes"] == LARGEST


async def test_a_route_may_take_more(running: Running) -> None:
    answer = await running.ask(
        "POST", "/api/v1/things/batch", padded(2 * LARGEST), {"idempotency-key": "k"}
    )
    assert answer.status == 201


async def test_chunks_are_counted_too(running: Running) -> None:
    chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    answer = await running.raw(head("transfer-encoding: chunked") + chunk * 6)
    assert (answer.status, answer.json["code"]) == (413, "body_too_large")


async def test_a_chunked_body_is_put_together(running: Running) -> None:
    chunks = b'5\r\n{"amo\r\n8\r\nunt":12}\r\n0\r\n\r\n'
    answer = await running.raw(head("transfer-encoding: chunked") + chunks)
    assert answer.json["amount"] == 12


async def test_a_slow_body_is_given_up(running: Running) -> None:
    answer = await running.raw(head("content-length: 50") + b"{")
    assert (answer.status, answer.json["code"]) == (408, "receive_timeout")


async def test_a_slow_form_for_a_page_is_given_up(running: Running) -> None:
    form = b"POST /console/a HTTP/1.1\r\nhost: x\r\ncontent-length: 50\r\n\r\na"
    answer = await running.raw(form)
    assert (answer.status, answer.json["code"]) == (408, "receive_timeout")


async def test_slow_headers_and_idle_connections_are_closed(running: Running) -> None:
    for sent in (b"GET / HTTP/1.1\r\nho", b""):
        reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
        writer.write(sent)
        assert await asyncio.wait_for(reader.read(), 5) == b""
        writer.close()


@pytest.mark.parametrize("reset", [False, True])
async def test_a_client_that_leaves_is_no_failure(
    running: Running,
    reset: bool,  # noqa: FBT001
    caplog: pytest.LogCaptureFixture,
) -> None:
    with capture_logs() as logs:
        _, writer = await asyncio.open_connection("127.0.0.1", running.port)
        writer.write(head("content-length: 50") + b"{")
        await until(lambda: len(running.app.active) == 1)
        if reset:
            linger = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        writer.close()
        await until(lambda: len(running.app.active) == 0)
    assert [(entry["event"], entry["status"]) for entry in logs] == [("request", 400)]
    assert logs[0]["route"] == "/api/v1/things"
    assert not caplog.records


@pytest.mark.parametrize("path", ["/api/v1/things", "/console/a"])
async def test_broken_chunks_are_refused(running: Running, path: str) -> None:
    sent = head("transfer-encoding: chunked").replace(b"/api/v1/things", path.encode())
    answer = await running.raw(sent + b"{}\r\n")
    assert (answer.status, answer.json["code"]) == (400, "body_incomplete")


@pytest.mark.parametrize(
    "headers",
    [
        {"content_type": "text/plain"},
        {"content_type": ""},
        {"content_type": "application/json", "content_encoding": "gzip"},
    ],
)
async def test_a_body_that_is_not_plain_json_is_refused(
    running: Running, headers: dict[str, str]
) -> None:
    answer = await post(running, b'{"amount":5}', **headers)
    assert (answer.status, answer.json["code"]) == (415, "unsupported_media_type")


async def test_a_content_type_may_name_its_charset(running: Running) -> None:
    answer = await post(running, b'{"amount":5}', content_type="Application/JSON; charset=utf-8")
    assert answer.status == 201


async def test_a_refused_request_reaches_no_handler() -> None:
    services = Services()
    async with serving(sample_app(services)) as served:
        served.headers = {"authorization": f"Bearer {KEY}"}
        for body in (b"]", b"{}", padded(LARGEST + 1)):
            await post(served, body)
        assert services.calls == 0
        await post(served, b'{"amount":5}')
        assert services.calls == 1


def nested(levels: int, mark: bytes = b"[]") -> bytes:
    return b'{"amount":5,"extra":' + mark[:1] * levels + mark[1:] * levels + b"}"


async def test_nesting_ends_at_32(running: Running) -> None:
    assert (await post(running, nested(31))).status == 201
    answer = await post(running, nested(32))
    assert (answer.status, answer.json["code"]) == (422, "body_too_deep")


async def test_a_depth_bomb_is_refused_quickly(running: Running) -> None:
    for bomb in (b"[" * 200_000, b'{"a":' * 50_000, nested(100_000)):
        assert (await post(running, bomb)).json["code"] == "body_too_deep"


@pytest.mark.parametrize(
    ("body", "deep"),
    [
        (b'{"a":"' + b"[" * 100 + b'"}', False),
        (b'{"a":"' + b'\\"[' * 100 + b'"}', False),
        (b'{"a":"\\\\",' + b'"b":' + b"[" * 40 + b"]" * 40 + b"}", True),
        (b"[" + b"[],{}," * 5_000 + b"1]", False),
        (b"[" * 32 + b"]" * 32, False),
        (b"[{" * 16 + b"}]" * 16, False),
        (b"[" * 33 + b"]" * 33, True),
        (b'["' + b"[" * 100, False),
        (b"]" * 100 + b"[" * 20, False),
    ],
)
def test_depth_is_counted_outside_of_strings(body: bytes, deep: bool) -> None:  # noqa: FBT001
    with pytest.raises(RefusedError, match="body_too_deep") if deep else nullcontext():
        request_reader.check_depth(body, 32)


async def test_too_many_headers_are_refused(running: Running) -> None:
    many = b"".join(b"x-%d: y\r\n" % number for number in range(300))
    answer = await running.raw(b"GET /healthz HTTP/1.1\r\nhost: x\r\n" + many + b"\r\n")
    assert answer.status == 431


async def test_a_connection_goes_on_after_a_body(running: Running) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
    for _ in range(3):
        writer.write(head("content-length: 12") + b'{"amount":5}')
        assert (await read_answer(reader)).status == 201
    writer.close()


UPGRADE = ("connection: Upgrade, HTTP2-Settings", "upgrade: h2c", "http2-settings: AAMAAABk")


@pytest.mark.parametrize(
    ("framing", "body"),
    [
        ("content-length: 12", b'{"amount":5}'),
        ("transfer-encoding: chunked", b'c\r\n{"amount":5}\r\n0\r\n\r\n'),
    ],
)
@pytest.mark.parametrize("size", [1, 150, 1000])
async def test_the_body_of_who_would_rather_speak_http_2_is_read(
    running: Running, framing: str, body: bytes, size: int
) -> None:
    """Java's client asks for it with its first requests, and `curl --http2` does."""
    reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
    sent = 2 * (head(framing, *UPGRADE) + body) + head(framing) + body
    for begin in range(0, len(sent), size):
        writer.write(sent[begin : begin + size])
        await asyncio.sleep(0)
    answers = [await read_answer(reader) for _ in range(3)]
    assert [(each.status, each.json["amount"]) for each in answers] == 3 * [(201, 5)]
    writer.close()


@pytest.mark.parametrize("last", [b"GARBAGE\r\n\r\n", b"CONNECT / HTTP/1.1\r\nhost: x\r\n\r\n"])
async def test_what_came_before_something_unreadable_is_answered(
    running: Running, last: bytes
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
    writer.write(3 * (head("content-length: 12") + b'{"amount":5}') + last)
    assert [(await read_answer(reader)).status for _ in range(3)] == [201, 201, 201]
    async with asyncio.timeout(10):
        await reader.read()
    writer.close()


async def test_a_body_in_one_message_is_counted_as_well() -> None:
    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": b"x" * 11, "more_body": False}

    headers = {b"transfer-encoding": b"chunked", b"content-type": b"application/json"}
    with pytest.raises(RefusedError, match="at most 10 bytes"):
        await request_reader.body(receive, headers, 10, RequestLimits())
