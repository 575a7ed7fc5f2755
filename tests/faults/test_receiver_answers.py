"""Answers of every kind, each twice: the second call must not suffer from the first."""

import asyncio
import socket
from collections.abc import AsyncIterator

import pytest

from conftest import eventually
from postdate.delivery import connection_pool
from postdate.delivery.http_connection import HttpConnection
from postdate.job.spec.outcome import Completed, Failed, Unknown
from support.hostile_receiver import Act, Hostile, Peer, hostile, status
from support.receiver_corpus import DONE, DOUBT, NO_BODY, OK, ending, resetting
from support.webhook import HandlerSetup, delivery, setup

TIMEOUT = 1.0


@pytest.fixture
async def calls() -> AsyncIterator[HandlerSetup]:
    async with setup() as running:
        yield running


async def call(calls: HandlerSetup, server: Hostile, **parts: object) -> object:
    return await calls.deliver(delivery(server.url, timeout_seconds=TIMEOUT, **parts))


@pytest.mark.parametrize("act", DONE.values(), ids=DONE)
async def test_success_is_success_however_it_is_written(calls: HandlerSetup, act: Act) -> None:
    async with hostile(act) as server:
        for _ in range(2):
            outcome = await call(calls, server)
            assert isinstance(outcome, Completed), outcome
        assert len(server.requests) == 2


@pytest.mark.parametrize("act", DOUBT.values(), ids=DOUBT)
async def test_what_cannot_be_read_leaves_doubt_and_is_sent_once(
    calls: HandlerSetup, act: Act
) -> None:
    async with hostile(act) as server:
        for _ in range(2):
            outcome = await call(calls, server)
            assert isinstance(outcome, Unknown), outcome
        assert len(server.requests) == 2


def test_an_idle_connection_with_anything_to_read_is_not_used() -> None:
    """The event loop need not have seen it yet: nothing was sent, so nothing is in doubt."""
    for said in (b"x", b""):
        ours, theirs = socket.socketpair()
        with ours, theirs:
            connection = HttpConnection(ours)
            assert connection.is_quiet()
            theirs.send(said)
            theirs.close()
            assert not connection.is_quiet()


async def test_a_used_connection_that_dies_without_an_answer_leaves_doubt(
    calls: HandlerSetup,
) -> None:
    """The request was written: that the connection was an old one proves nothing."""
    answered: list[Peer] = []

    async def act(peer: Peer) -> None:
        answered.append(peer)
        if len(answered) > 1:
            peer.reset()
        else:
            await peer.write(OK + NO_BODY)

    async with hostile(act) as server:
        assert isinstance(await call(calls, server), Completed)
        outcome = await call(calls, server)
        assert isinstance(outcome, Unknown)
        assert (outcome.code, server.connections, len(server.requests)) == ("no_answer", 1, 2)


async def test_a_late_answer_is_never_taken_for_the_next_one(calls: HandlerSetup) -> None:
    """Each request is answered twice, the second time with a failure, in packets of their own."""

    pool = calls.webhook._exchange._pool

    async def act(peer: Peer) -> None:
        await peer.write(OK + NO_BODY)
        await eventually(is_idle)
        await peer.write(b"HTTP/1.1 500 Late\r\n" + NO_BODY)

    async def is_idle() -> bool:
        return bool(pool._by_age)

    async def has_arrived() -> bool:
        return not any(each.is_quiet() for each in pool._by_age)

    async with hostile(act) as server:
        for _ in range(3):
            assert isinstance(await call(calls, server), Completed)
            await eventually(has_arrived)
        assert server.connections == 3


async def test_an_answer_before_the_body_was_read_counts(calls: HandlerSetup) -> None:
    large = b"x" * 8_000_000
    answered = asyncio.Event()

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Large\r\n" + NO_BODY)
        await answered.wait()
        writer.transport.abort()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    outcome = await calls.deliver(delivery(url, payload=large, timeout_seconds=TIMEOUT))
    answered.set()
    server.close()
    assert isinstance(outcome, Failed)
    assert outcome.http_status == 413
    assert calls.webhook._exchange._pool._by_age == {}


async def test_an_answer_before_the_request_is_the_answer(calls: HandlerSetup) -> None:
    async def eager(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 202 Early\r\nConnection: close\r\n" + NO_BODY)
        await reader.read()
        writer.transport.abort()

    server = await asyncio.start_server(eager, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    outcome = await calls.deliver(delivery(url, timeout_seconds=TIMEOUT))
    server.close()
    assert isinstance(outcome, Completed)


@pytest.mark.parametrize("act", [ending(OK + NO_BODY), resetting(OK + NO_BODY)])
async def test_a_lost_connection_leaves_nothing_behind(calls: HandlerSetup, act: Act) -> None:
    pool = calls.webhook._exchange._pool

    async def is_lost() -> bool:
        return all(each.lost is not None for each in pool._by_age)

    async with hostile(act) as server:
        assert isinstance(await call(calls, server), Completed)
        await eventually(is_lost)
        pool._sweep_idle()
    assert (pool._by_age, pool._idle) == ({}, {})


async def test_idle_connections_are_closed_in_time(
    calls: HandlerSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_pool, "IDLE_SECONDS", 0.3)
    ended = asyncio.Event()

    async def act(peer: Peer) -> None:
        await peer.write(OK + NO_BODY)
        if await peer.reader.read(1) == b"":
            ended.set()

    async with hostile(act) as server:
        assert isinstance(await call(calls, server), Completed)
        await asyncio.wait_for(ended.wait(), 5.0)
    assert calls.webhook._exchange._pool._by_age == {}


async def test_idle_connections_are_few(
    calls: HandlerSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_pool, "IDLE_CONNECTIONS", 3)
    async with hostile(status(200)) as server:
        await asyncio.gather(*(call(calls, server) for _ in range(10)))
        assert server.connections == 10
        assert len(calls.webhook._exchange._pool._by_age) == 3
        assert isinstance(await call(calls, server), Completed)
        assert server.connections == 10


async def test_a_call_that_is_given_up_closes_its_connection(calls: HandlerSetup) -> None:
    arrived = asyncio.Event()

    async def silent(peer: Peer) -> None:
        arrived.set()
        await peer.hang()

    async with hostile(silent) as server:
        running = asyncio.create_task(call(calls, server))
        await arrived.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    assert calls.webhook._exchange._pool._by_age == {}


async def test_a_name_is_asked_once_for_all_calls_that_wait_for_it() -> None:
    asked: list[str] = []
    answer = asyncio.Event()

    async def slow(_: int, host: str, port: int) -> list[str]:
        asked.append(f"{host}:{port}")
        await answer.wait()
        return ["127.0.0.1"]

    async with hostile(status(200)) as server, setup(lookup=slow) as calls:
        url = f"http://slow.example:{server.port}/"
        short = await calls.deliver(delivery(url, timeout_seconds=0.1))
        assert isinstance(short, Failed)
        assert short.code == "connect_timeout"
        waiting = asyncio.gather(*(calls.deliver(delivery(url)) for _ in range(5)))
        asyncio.get_running_loop().call_later(0.05, answer.set)
        assert all(isinstance(each, Completed) for each in await waiting)
        assert len(asked) == 1
