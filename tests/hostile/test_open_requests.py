"""What is held open is bounded, and the signs of life answer beside it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

import aiohttp
import pytest

from conftest import INTERNAL_TOKEN, Api, eventually, scratch
from postdate.core.identity import Identity
from postdate.database.connection.database import Database
from postdate.http.connection_registry import ConnectionLimits
from postdate.http.endpoint import Body, Call, Reply
from postdate.http.limit import RequestLimits
from postdate.http.listener import bind
from postdate.http.login_throttle import LoginThrottle
from postdate.http.open_request import OpenLimits, OpenRequests
from postdate.http.server import HttpServer, ServerLimits
from postdate.http.trusted_proxy import TrustedProxies, networks
from postdate.key.authentication.identity import Identities
from postdate.node import http as edge
from postdate.node.node import Node
from postdate.node.settings import ProcessSettings
from postdate.words.error import Code, RefusedError
from support.raw_http import Running, make_app, read_answer, serving
from support.sample_app import endpoint
from support.serve_process import Served

pytestmark = pytest.mark.own_database("its loops work for every tenant")

STREAM = (
    "GET /api/v1/events?after=now HTTP/1.1\r\nhost: x\r\naccept: text/event-stream\r\n"
    "authorization: Bearer {key}\r\n\r\n"
)
HALF_HEAD = b"GET /healthz HTTP/1.1\r\nhost: x\r\nx-half"
HALF_BODY = (
    b"POST /api/v1/thing HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
    b"content-length: 100\r\n\r\n{"
)
HALF_FORM = (
    b"POST /login HTTP/1.1\r\nhost: x\r\ncontent-type: application/x-www-form-urlencoded\r\n"
    b"content-length: 100\r\n\r\nkey="
)
SIGNS = ("/healthz", "/readyz", "/metrics")
Pair = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Thing(Body):
    """Some body."""

    a: int = 0


async def thing(_: Call[Any, Thing, None]) -> Reply:
    return Reply(b"{}")


@asynccontextmanager
async def many(port: int, count: int, data: bytes) -> AsyncIterator[list[Pair]]:
    """Open so many connections and send the same on each."""
    opened: list[Pair] = []
    try:
        for _ in range(count):
            pair = await asyncio.open_connection("127.0.0.1", port)
            pair[1].write(data)
            opened.append(pair)
        yield opened
    finally:
        for _, writer in opened:
            writer.transport.abort()


async def statuses(opened: list[Pair]) -> list[int]:
    """Read the first line of each answer; 0 where the connection was closed."""
    lines = [(await asyncio.wait_for(reader.readline(), 10)).split() for reader, _ in opened]
    return [int(line[1]) if line else 0 for line in lines]


async def signs_answer(port: int) -> None:
    timeout = aiohttp.ClientTimeout(total=10)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        for path in SIGNS:
            async with session.get(f"http://127.0.0.1:{port}{path}") as answer:
                assert answer.status == 200, path


def who(key: str = "k", tenant: int = 1) -> Identity:
    return Identity(tenant_id=tenant, tenant="t", key_id=key, scopes=frozenset())


@pytest.mark.parametrize(
    ("limits", "owner"),
    [
        (OpenLimits(per_key=2), "key"),
        (OpenLimits(per_tenant=2), "tenant"),
        (OpenLimits(per_address=2), "address"),
    ],
)
def test_each_owner_has_its_own_bound(limits: OpenLimits, owner: str) -> None:
    held = OpenRequests("streams", limits)
    with held.hold(who(), "a"), held.hold(who(), "a"):
        with pytest.raises(RefusedError) as refused, held.hold(who(), "a"):
            pass
        assert refused.value.refusal.code is Code.TOO_MANY_OPEN
        assert refused.value.refusal.extra["limited_by"] == owner
        with held.hold(who("other", 2), "b"):
            assert len(held) == 3
    assert len(held) == 0
    assert not held._counts


def test_all_together_are_bounded() -> None:
    held = OpenRequests("streams", OpenLimits(total=1))
    with held.hold(None, "a"), pytest.raises(RefusedError) as refused, held.hold(None, "b"):
        pass
    assert refused.value.refusal.code is Code.OVERLOADED


@pytest.fixture
async def tight(database: Database) -> AsyncIterator[Api]:
    """The whole edge, with room for few."""
    settings = ProcessSettings(
        internal_token=INTERNAL_TOKEN, open_per_key=5, open_per_tenant=8, open_per_address=20
    )
    node = Node(settings=settings, database=database, roles=["api"])
    app = edge.build(node, Identities(database, LoginThrottle(free=10**9)))
    running = HttpServer(app, bind("127.0.0.1", 0))
    task = asyncio.create_task(running.run())
    async with aiohttp.ClientSession() as session:
        yield Api(running.url, session, node)
    running.stop()
    await task
    await node.close()


async def test_streams_of_a_key_and_a_tenant_are_bounded(tight: Api, api: Api) -> None:
    port = int(tight.url.rpartition(":")[2])
    mine = replace(tight, key=api.key, tenant=api.tenant)
    other = await mine.new_key("admin")
    async with many(port, 7, STREAM.format(key=api.key).encode()) as first:
        assert sorted(await statuses(first)) == [200] * 5 + [429] * 2
        poll = await mine.call("GET", "/events?after=now&wait_seconds=5")
        assert (poll.status, poll.body["code"]) == (429, "too_many_open")
        assert (poll.body["limited_by"], poll.headers["Retry-After"]) == ("key", "5")
        claim = await mine.call("POST", "/lanes/any/claim", {"wait_seconds": 5})
        assert claim.body["code"] == "too_many_open"
        async with many(port, 5, STREAM.format(key=other).encode()) as second:
            assert sorted(await statuses(second)) == [200] * 3 + [429] * 2
        # What does not wait is served all the same.
        assert (await mine.call("GET", "/events")).status == 200
        await signs_answer(port)

    async def again() -> bool:
        async with many(port, 1, STREAM.format(key=api.key).encode()) as one:
            return await statuses(one) == [200]

    await eventually(again)


async def test_streams_dropped_at_once_leave_no_connection_behind(api: Api) -> None:
    port = int(api.url.rpartition(":")[2])
    database = api.node.database
    for _ in range(5):
        async with many(port, 30, STREAM.format(key=api.key).encode()):
            pass

    async def whole() -> bool:
        pools = (database.writer, database.reader)
        return all(pool.get_idle_size() == pool.get_size() for pool in pools)

    await eventually(whole)
    stuck = "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'"
    assert await database.writer.fetchval(stuck) == 0


async def test_half_sent_bodies_of_an_address_are_bounded() -> None:
    app = make_app(
        [endpoint("POST", "/thing", thing, scope=None, returns=None, body=Thing)],
        limits=RequestLimits(open=OpenLimits(per_address=10)),
    )
    async with serving(app) as running, many(running.port, 14, HALF_BODY) as opened:
        for reader, _ in opened[10:]:
            answer = await read_answer(reader)
            assert (answer.status, answer.json["code"]) == (429, "too_many_open")
        await signs_answer(running.port)


async def test_half_sent_forms_of_strangers_take_no_room_from_good_keys(
    tight: Api, api: Api
) -> None:
    port = int(tight.url.rpartition(":")[2])
    mine = replace(tight, key=api.key, tenant=api.tenant)
    async with many(port, 24, HALF_FORM) as opened:
        assert await statuses(opened[20:]) == [429] * 4
        body = {"destination": {"type": "worker"}, "delay_seconds": 3600}
        assert (await mine.call("POST", "/jobs", body)).status == 201


async def test_half_sent_heads_of_an_address_give_way_oldest_first() -> None:
    limits = ServerLimits(connections=ConnectionLimits(per_address=12))
    async with serving(make_app([]), limits) as running:
        keep = await alive(running)
        async with many(running.port, 11, HALF_HEAD) as early:
            assert await asks_again(keep)
            async with many(running.port, 9, HALF_HEAD) as late:
                ended = [await closed(reader) for reader, _ in early]
                assert ended == [True] * 9 + [False] * 2
                assert not any([await closed(reader) for reader, _ in late])
                assert await asks_again(keep), "who was served last is closed last"
                await signs_answer(running.port)
        keep[1].close()


async def test_all_addresses_together_are_bounded_and_a_listed_proxy_only_by_that() -> None:
    limits = ServerLimits(
        connections=ConnectionLimits(per_address=1, total=64, exempt=lambda _: True)
    )
    app = make_app([])
    async with serving(app, limits) as running, many(running.port, 70, HALF_HEAD) as opened:
        gone = await asyncio.gather(*(closed(reader) for reader, _ in opened))
        assert sum(gone) == 6
        await signs_answer(running.port)


async def alive(running: Running) -> Pair:
    """A connection that is kept open after its first request."""
    pair = await asyncio.open_connection("127.0.0.1", running.port)
    assert await asks_again(pair)
    return pair


async def asks_again(pair: Pair) -> bool:
    pair[1].write(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
    return (await read_answer(pair[0])).status == 200


async def closed(reader: asyncio.StreamReader) -> bool:
    with suppress(TimeoutError, ConnectionError):
        return await asyncio.wait_for(reader.read(1), 0.2) == b""
    return False


@pytest.mark.parametrize(
    ("peer", "forwarded", "client"),
    [
        ("10.0.0.1", b"192.0.2.7", "192.0.2.7"),
        ("10.0.0.1", b"203.0.113.9, 192.0.2.7, 10.0.0.2", "192.0.2.7"),
        ("10.0.0.1", b"[2001:db8::1]:99", "2001:db8::1"),
        ("::ffff:10.0.0.1", b"192.0.2.7:1234", "192.0.2.7"),
        ("10.0.0.1", b"192.0.2.7, rubbish", "10.0.0.1"),
        ("10.0.0.1", b"10.0.0.9", "10.0.0.9"),
        ("10.0.0.1", None, "10.0.0.1"),
        ("192.0.2.8", b"192.0.2.7", "192.0.2.8"),
        ("", b"192.0.2.7", ""),
    ],
)
def test_only_a_trusted_proxy_is_believed(peer: str, forwarded: bytes | None, client: str) -> None:
    assert TrustedProxies(networks("10.0.0.0/8")).client(peer, forwarded) == client
    assert TrustedProxies().client(peer, forwarded) == peer


@pytest.mark.soak
async def test_signs_of_life_answer_beside_1100_streams_and_1100_half_sent_requests() -> None:
    with scratch() as directory:
        (directory / "data").mkdir()
        served = Served(directory / "data")
        await served.start()
        try:
            await served.ready()
            async with many(served.port, 1100, STREAM.format(key=served.key).encode()) as opened:
                got = await statuses(opened)
                # Of 1,100 connections of one address, 1,024 may stay.
                assert set(got) - {0} == {200, 429}
                assert 200 <= got.count(200) <= 256
                await signs_answer(served.port)
            async with many(served.port, 1100, HALF_HEAD):
                await signs_answer(served.port)
            assert (await served.get("/api/v1/whoami", served.key))[0] == 200
        finally:
            await served.stop()
