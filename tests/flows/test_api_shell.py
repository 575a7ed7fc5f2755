"""The HTTP shell on a real server: routing, keys, shapes, problems."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from postdate.http.endpoint import Call, Reply
from postdate.http.page import encode_cursor
from support.log import capture_logs
from support.raw_http import Running, make_app, read_answer, serving
from support.sample_app import (
    ENDPOINTS,
    INTERNAL,
    KEY,
    READER_KEY,
    authenticate,
    endpoint,
    post,
    sample_app,
)


@pytest.fixture(scope="module")
async def running() -> AsyncIterator[Running]:
    async with serving(sample_app()) as served:
        served.headers = {"authorization": f"Bearer {KEY}"}
        yield served


async def test_whoami_shows_the_identity(running: Running) -> None:
    answer = await running.ask("GET", "/api/v1/whoami")
    assert answer.status == 200
    assert answer.json == {
        "tenant": "acme",
        "key_id": "k1",
        "scopes": ["admin"],
        "accounts": None,
        "max_amount": None,
    }


async def test_a_call_carries_body_key_and_identity(running: Running) -> None:
    answer = await post(running, b'{"amount":5,"note":"again"}')
    assert answer.status == 201
    assert answer.json == {"amount": 5, "note": "again", "key": "k-1", "tenant": "acme"}
    assert answer.headers["idempotency-replayed"] == "true"
    assert answer.headers["content-type"] == "application/json"
    assert "idempotency-replayed" not in (await post(running, b'{"amount":5}')).headers


@pytest.mark.parametrize(
    ("body", "status", "code", "field"),
    [
        (b'{"amount":"5"}', 422, "invalid_field", "amount"),
        (b'{"amount":0}', 422, "invalid_field", "amount"),
        (b"{}", 422, "invalid_field", "amount"),
        (b"", 422, "invalid_field", "amount"),
        (b"[]", 422, "invalid_field", None),
        (b'{"amount":5,"zz":1}', 422, "unknown_field", "zz"),
        (b'{"amount":5,"inner":{"y":1}}', 422, "unknown_field", "inner.y"),
        (b'{"amount":5,"inner":{"x":"s"}}', 422, "invalid_field", "inner.x"),
        (b'{"amount":5,"note":"\\u0000"}', 422, "invalid_field", None),
        (b'{"amount":5', 400, "malformed_json", None),
        (b'{"amount":5}}', 400, "malformed_json", None),
        (b'{"amount":5,"note":"\xff"}', 400, "malformed_json", None),
        (b'{"amount":5,"note":"\\ud800"}', 400, "malformed_json", None),
    ],
)
async def test_a_wrong_body_is_refused_by_field(
    running: Running, body: bytes, status: int, code: str, field: str | None
) -> None:
    answer = await post(running, body)
    assert (answer.status, answer.json["code"]) == (status, code)
    assert answer.json.get("field") == field


async def test_an_escaped_backslash_before_u0000_is_no_nul(running: Running) -> None:
    answer = await post(running, b'{"amount":5,"note":"\\\\u0000"}')
    assert answer.json["note"] == "\\u0000"


async def test_a_problem_has_its_shape(running: Running) -> None:
    answer = await running.ask("GET", "/api/v1/explode/refused", headers={"x-request-id": "r-1"})
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json == {
        "type": "/docs/errors#conflict",
        "title": "The current status does not allow this",
        "status": 409,
        "detail": "It is done.",
        "code": "conflict",
        "request_id": "r-1",
        "status_now": "COMPLETED",
    }


@pytest.mark.parametrize("given", ["", "x" * 129, "two words"])
async def test_a_useless_request_id_is_replaced(running: Running, given: str) -> None:
    answer = await running.ask("GET", "/api/v1/whoami", headers={"x-request-id": given})
    assert len(answer.headers["x-request-id"]) == 32


async def test_malformed_and_missing_ids_look_the_same(running: Running) -> None:
    absent = "0198c0de-0000-7000-8000-000000000000"
    answers = [await running.ask("GET", f"/api/v1/things/{i}") for i in (absent, "abc", "a%ff")]
    assert [a.status for a in answers] == [404, 404, 404]
    assert [a.json["code"] for a in answers] == ["not_found"] * 3
    assert answers[0].json["detail"] == f"There is no thing {absent}."
    assert answers[1].json["detail"] == "There is no thing abc."


async def test_a_path_segment_may_hold_an_escaped_slash(running: Running) -> None:
    assert (await running.ask("GET", "/api/v1/names/a%2Fb")).json["note"] == "a/b"


@pytest.mark.parametrize("path", ["/api/v1/names/%00", "/api/v1/names/" + "x" * 256])
async def test_an_impossible_name_is_not_found(running: Running, path: str) -> None:
    assert (await running.ask("GET", path)).status == 404


@pytest.mark.parametrize("path", ["/api/v1/nothing", "/api/v1/things/", "/api/v2/x", "/nothing"])
async def test_an_unknown_route_is_a_problem_without_a_key(running: Running, path: str) -> None:
    answer = await running.ask("GET", path, headers={"authorization": ""})
    assert answer.status == 404
    assert answer.json["code"] == "not_found"


@pytest.mark.parametrize(
    ("path", "allow"),
    [
        ("/api/v1/things", "GET, HEAD, POST"),
        ("/healthz", "GET, HEAD"),
        ("/api/v1/whoami", "GET, HEAD"),
    ],
)
async def test_a_wrong_method_lists_the_right_ones(running: Running, path: str, allow: str) -> None:
    answer = await running.ask("PUT", path)
    assert answer.status == 405
    assert answer.json["code"] == "method_not_allowed"
    assert ", ".join(sorted(answer.headers["allow"].split(", "))) == allow


@pytest.mark.parametrize(
    "authorization", ["", "Bearer wrong", f"Basic {KEY}", "Bearer ", KEY, "Bearer \xff"]
)
async def test_without_a_valid_key_nothing_is_read(running: Running, authorization: str) -> None:
    # The body is no JSON at all: the key is checked before anything is read.
    answer = await post(running, b"]", authorization=authorization)
    assert answer.status == 401
    assert answer.headers["www-authenticate"].startswith("Bearer")


async def test_a_missing_scope_is_named(running: Running) -> None:
    answer = await post(running, b"]", authorization=f"Bearer {READER_KEY}")
    assert answer.status == 403
    assert answer.json["scope"] == "jobs:write"
    assert "jobs:write" in answer.json["detail"]


async def test_an_internal_route_wants_its_token(running: Running) -> None:
    right = {"x-internal-auth": INTERNAL}
    for headers in ({}, {"x-internal-auth": INTERNAL[:-1]}, {"x-internal-auth": KEY}):
        answer = await running.ask("POST", "/api/v1/internal/run", headers=headers)
        assert answer.status == 401
    assert (await running.ask("POST", "/api/v1/internal/run", headers=right)).json["done"] is True


async def test_without_a_token_an_internal_route_stays_shut() -> None:
    async with serving(make_app(ENDPOINTS, authenticate=authenticate)) as served:
        answer = await served.ask("POST", "/api/v1/internal/run", headers={"x-internal-auth": ""})
        assert answer.status == 401


async def test_an_open_route_needs_no_key_and_no_body(running: Running) -> None:
    answer = await running.ask("GET", "/api/v1/opened", headers={"authorization": ""})
    assert (answer.status, answer.body) == (204, b"")


@pytest.mark.parametrize(
    ("key", "status", "code"),
    [
        ("", 400, "idempotency_key_missing"),
        ("x" * 256, 422, "idempotency_key_invalid"),
        ("sch\xe4n", 422, "idempotency_key_invalid"),
    ],
)
async def test_an_unusable_idempotency_key_is_refused(
    running: Running, key: str, status: int, code: str
) -> None:
    answer = await post(running, b'{"amount":5}', idempotency_key=key)
    assert (answer.status, answer.json["code"]) == (status, code)


@pytest.mark.parametrize(
    ("query", "status", "field"),
    [
        ("limit=7", 200, None),
        ("limit=101", 422, "limit"),
        ("limit=0", 422, "limit"),
        ("limit=x", 422, "limit"),
        ("limit=1&limit=2", 422, "limit"),
        ("what=1", 422, "what"),
        ("cursor=%00", 422, "cursor"),
        ("cursor=no!", 422, "cursor"),
        ("cursor=%ff", 422, None),
        ("&".join(f"a{i}=1" for i in range(60)), 422, None),
    ],
)
async def test_a_query_is_read_strictly(
    running: Running, query: str, status: int, field: str | None
) -> None:
    answer = await running.ask("GET", f"/api/v1/things?{query}")
    assert answer.status == status
    assert answer.json.get("field") == field


async def test_a_cursor_comes_back_as_it_went(running: Running) -> None:
    answer = await running.ask("GET", f"/api/v1/things?cursor={encode_cursor(41)}")
    assert answer.json == {"limit": 20, "after": 41}
    foreign = await running.ask("GET", f"/api/v1/things?cursor={encode_cursor('x')}")
    assert foreign.json["code"] == "invalid_cursor"


async def test_a_failure_is_logged_and_not_leaked(running: Running) -> None:
    with capture_logs() as logs:
        answer = await running.ask("GET", "/api/v1/explode/unexpected")
    assert answer.status == 500
    assert answer.json["code"] == "internal"
    assert b"boom" not in answer.body
    failures = [entry for entry in logs if entry["event"] == "request failed"]
    assert [str(entry["exc_info"]) for entry in failures] == [f"boom {KEY}"]


async def test_a_failure_below_can_be_translated(running: Running) -> None:
    answer = await running.ask("GET", "/api/v1/explode/translated")
    assert (answer.status, answer.json["code"]) == (503, "unavailable")
    assert answer.headers["retry-after"] == "7"


async def test_a_handler_has_a_deadline(running: Running) -> None:
    read = await running.ask("GET", "/api/v1/stall")
    assert (read.status, read.json["code"]) == (503, "overloaded")
    written = await running.ask("DELETE", "/api/v1/stall")
    assert (written.status, written.json["code"]) == (503, "outcome_unknown")
    assert written.headers["retry-after"] == "1"


async def test_an_answer_can_be_a_stream(running: Running) -> None:
    answer = await running.ask("GET", "/api/v1/stream")
    assert answer.headers["content-type"] == "text/event-stream"
    assert answer.headers["transfer-encoding"] == "chunked"
    assert all(f"data: {number}".encode() in answer.body for number in range(3))


async def test_a_stream_to_http_1_0_ends_with_the_connection(running: Running) -> None:
    head = f"GET /api/v1/stream HTTP/1.0\r\nauthorization: Bearer {KEY}\r\n"
    answer = await running.raw(f"{head}connection: keep-alive\r\n\r\n".encode())
    assert "transfer-encoding" not in answer.headers
    assert answer.body == b"data: 0\n\ndata: 1\n\ndata: 2\n\n"


async def test_head_is_get_without_a_body(running: Running) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
    head = "HEAD /api/v1/whoami HTTP/1.1\r\nhost: x\r\nconnection: close\r\n"
    writer.write(f"{head}authorization: Bearer {KEY}\r\n\r\n".encode())
    answer = (await asyncio.wait_for(reader.read(), 5)).decode()
    writer.close()
    assert answer.startswith("HTTP/1.1 200")
    assert answer.endswith("\r\n\r\n")


async def test_a_connection_serves_many_requests(running: Running) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
    for _ in range(3):
        writer.write(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
        assert (await read_answer(reader)).status == 200
    writer.close()


@pytest.mark.parametrize(
    "text", [b'"\\ud800"', b'"\\uD800a"', b'"\\udbff\\n12345678"', b'"\\\\\\ud800\\ud800"']
)
async def test_half_a_surrogate_pair_is_called_one(running: Running, text: bytes) -> None:
    answer = await post(running, b'{"amount":5,"note":' + text + b"}")
    assert (answer.status, answer.json["code"]) == (400, "malformed_json")
    assert "half of a surrogate pair" in answer.json["detail"]


async def test_the_head_of_a_stream_is_all_of_its_answer() -> None:
    async def never(_: Call[Any, None, None]) -> Reply:
        async def chunks() -> AsyncIterator[bytes]:
            await asyncio.Event().wait()
            yield b""

        return Reply(chunks(), headers={"content-type": "text/event-stream"})

    app = make_app([endpoint("GET", "/never", never, scope=None, returns=None)])
    async with serving(app) as served:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        for path in (b"/api/v1/never", b"/healthz"):
            writer.write(b"HEAD " + path + b" HTTP/1.1\r\nhost: x\r\n\r\n")
        async with asyncio.timeout(5):
            heads = [await reader.readuntil(b"\r\n\r\n") for _ in range(2)]
        assert [head[:12] for head in heads] == [b"HTTP/1.1 200"] * 2
        assert b"text/event-stream" in heads[0]
        writer.close()
