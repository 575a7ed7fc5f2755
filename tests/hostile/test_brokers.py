"""Hostile brokers: what may not be reached never sees a connection.

One loopback address stands for the public network, another for what lies behind it.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from confluent_kafka import Producer

from conftest import eventually
from postdate.core.limit import Limit
from postdate.delivery.broker import Permitted, QueueBroker
from postdate.delivery.broker_connections import BrokerConnections
from postdate.delivery.guard import Guard, Lookup, TargetRefusedError
from postdate.delivery.queue import QueueHandler
from postdate.destination.spec.broker_url import kafka_brokers
from postdate.destination.spec.destination import Destination, DestinationType, Resolved
from postdate.destination.spec.target import networks
from postdate.job.spec.outcome import Completed, Delivery, Failed, Outcome, Throttled
from support.target_corpus import ADDRESSES

PUBLIC, PRIVATE = "127.0.0.1", "127.0.0.2"

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Listener:
    """A server that counts who came."""

    def __init__(self, serve: Serve) -> None:
        self._serve = serve
        self.port = 0
        self.connections = 0
        self.open: set[asyncio.StreamWriter] = set()

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open.add(writer)
        try:
            await self._serve(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self.open.discard(writer)
            writer.transport.abort()


async def silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    while await reader.read(1024):
        pass


@asynccontextmanager
async def listening(address: str, serve: Serve = silent, port: int = 0) -> AsyncIterator[Listener]:
    listener = Listener(serve)
    server = await asyncio.start_server(listener.connected, address, port)
    listener.port = server.sockets[0].getsockname()[1]
    try:
        yield listener
    finally:
        server.close()
        for writer in list(listener.open):
            writer.transport.abort()


Open = Callable[..., QueueHandler]


@pytest.fixture
async def queue_to() -> AsyncIterator[Open]:
    """Make queues for tenants whose destinations all have one kind and config."""
    made: list[tuple[BrokerConnections, Guard]] = []

    def make(
        kind: str,
        config: Mapping[str, Any] | Callable[[str], Mapping[str, Any]],
        lookup: Lookup | None = None,
        kafka: str = "",
    ) -> QueueHandler:
        async def resolve(tenant_id: int, name: str | None) -> Resolved:
            return Destination(
                tenant_id=tenant_id,
                name=name,
                type=DestinationType.QUEUE,
                limit=Limit(f"destination:{name}"),
                kind=kind,
                config=dict(config(str(name)) if callable(config) else config),
            )

        guard = Guard(networks(f"{PUBLIC}/32"), lookup)
        permitted = Permitted(networks(f"{PUBLIC}/32"), kafka_brokers(kafka))
        made.append((BrokerConnections(guard, permitted), guard))
        return QueueHandler(resolve, made[-1][0])

    yield make
    for connections, guard in made:
        await connections.close()
        guard.close()


def delivery(tenant_id: int = 1, name: str = "q", timeout_seconds: float = 3) -> Delivery:
    return Delivery(
        job_id=UUID("018bcfe5-6801-7003-b831-000000000001"),
        token=1,
        attempt=1,
        tenant_id=tenant_id,
        lane="default",
        destination={"type": "queue", "name": name, "subject": "orders"},
        due_at=datetime(2026, 1, 1, tzinfo=UTC),
        timeout_seconds=timeout_seconds,
        payload=b"{}",
    )


def nats_that_names(*others: Any) -> Serve:
    """Serve NATS until the first message, then nobody: the client looks for the others."""
    gone = False

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal gone
        if gone:
            return
        info = {"server_id": "x", "version": "2.10.0", "max_payload": 1 << 20, "headers": True}
        writer.write(b"INFO " + json.dumps({**info, "connect_urls": others}).encode() + b"\r\n")
        while line := await reader.readline():
            if line.startswith(b"PING"):
                writer.write(b"PONG\r\n")
            if line.startswith((b"PUB", b"HPUB")):
                gone = True
                return

    return serve


async def test_a_nats_server_cannot_send_the_client_to_a_forbidden_address(queue_to: Open) -> None:
    async with listening(PRIVATE) as forbidden, listening(PUBLIC) as other:
        names = (
            f"{PRIVATE}:{forbidden.port}",
            f"[::ffff:{PRIVATE}]:{forbidden.port}",
            f"user:word@{PRIVATE}:{forbidden.port}",
            f"localhost.:{forbidden.port}",
            f"2130706434:{forbidden.port}",
            f"{PUBLIC}:{other.port}",
            "no port:99999",
            17,
        )
        async with listening(PUBLIC, nats_that_names(*names)) as server:
            queue = queue_to("nats", {"servers": [f"nats://{PUBLIC}:{server.port}"]})
            assert not isinstance(await queue.deliver(delivery(timeout_seconds=1)), Completed)
            assert server.connections == 1
        # Not even to the permitted one among them: a lost connection is opened anew as configured.
        assert not isinstance(await queue.deliver(delivery(timeout_seconds=1)), Completed)
        assert (forbidden.connections, other.connections) == (0, 0)


async def _came(listener: Listener) -> bool:
    return listener.connections > 0


async def test_a_nats_server_that_names_thousands_is_believed_a_few(
    queue_to: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with listening(PUBLIC) as other:
        names = [f"127.0.0.{1 + n % 250}:{10_000 + n}" for n in range(400)]
        async with listening(PUBLIC, nats_that_names(*names)) as server:
            queue = queue_to("nats", {"servers": [f"nats://{PUBLIC}:{server.port}"]})
            opened: list[Any] = []
            open_broker = queue._connections.open

            async def keep(found: Destination) -> QueueBroker:
                broker = await open_broker(found)
                opened.append(broker)
                return broker

            monkeypatch.setattr(queue._connections, "open", keep)

            async def connected() -> bool:
                await queue.deliver(delivery(timeout_seconds=0.2))
                return bool(opened)

            await eventually(connected)
            assert len(opened[0]._client._server_pool) <= 32
        assert other.connections == 0


async def test_nats_by_tls_sends_nothing_to_a_server_without_it(queue_to: Open) -> None:
    heard: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'INFO {"server_id":"x","max_payload":1048576}\r\n')
        while line := await reader.readline():
            heard.append(line)

    async with listening(PUBLIC, serve) as server:
        config = {"servers": [f"tls://{PUBLIC}:{server.port}"], "user": "u", "password": "secret"}
        outcome = await queue_to("nats", config).deliver(delivery())
        assert isinstance(outcome, Failed)
        assert (outcome.code, outcome.retryable) == ("broker_unavailable", True)
        assert heard == []


def redis_that_answers(answer: bytes, greeting: bytes = b"+PONG\r\n") -> Serve:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while got := await reader.read(65536):
            commands = got.upper()
            if b"HELLO" in commands:
                writer.write(b"%1\r\n$5\r\nproto\r\n:3\r\n")
            elif b"XADD" in commands:
                writer.write(answer)
            elif b"PING" in commands:
                writer.write(greeting)
            else:
                writer.write(b"+OK\r\n" * max(1, commands.count(b"CLIENT")))

    return serve


async def test_a_redis_cannot_send_the_client_to_a_forbidden_address(queue_to: Open) -> None:
    async with listening(PRIVATE) as forbidden:
        there = f"{PRIVATE}:{forbidden.port}".encode()
        push = b">4\r\n$6\r\nMOVING\r\n:1\r\n:1\r\n$%d\r\n%s\r\n" % (len(there), there)
        for answer, greeting in (
            (b"-MOVED 1 " + there + b"\r\n", b"+PONG\r\n"),
            (b"-ASK 1 " + there + b"\r\n", b"+PONG\r\n"),
            (push + b"$3\r\n1-1\r\n", b"+PONG\r\n"),
            (b"$3\r\n1-1\r\n", push + b"+PONG\r\n"),
        ):
            async with listening(PUBLIC, redis_that_answers(answer, greeting)) as server:
                queue = queue_to("redis", {"url": f"redis://{PUBLIC}:{server.port}/0"})
                for _ in range(3):
                    assert not isinstance(await queue.deliver(delivery()), Completed)
        assert forbidden.connections == 0


async def test_what_an_amqp_server_says_leads_nowhere_else(queue_to: Open) -> None:
    async with listening(PRIVATE) as forbidden:
        host = f"{PRIVATE}:{forbidden.port}".encode()
        arguments = bytes([len(host)]) + host + b"\x00"
        redirect = b"\x00\x0a\x00\x2a" + arguments  # connection.redirect of the old protocol
        frames = b"\x01\x00\x00" + len(redirect).to_bytes(4, "big") + redirect + b"\xce"

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readexactly(8)
            writer.write(frames)
            await silent(reader, writer)

        async with listening(PUBLIC, serve) as server:
            outcome = await queue_to(
                "rabbitmq", {"url": f"amqp://u:p@{PUBLIC}:{server.port}/"}
            ).deliver(delivery())
        assert isinstance(outcome, Failed)
        assert (outcome.code, forbidden.connections) == ("broker_unavailable", 0)


def by_name(kind: str, port: int) -> dict[str, Any]:
    place = f"rebind.example:{port}"
    configs: dict[str, dict[str, Any]] = {
        "nats": {"servers": [f"nats://{place}"]},
        "nats-tls": {"servers": [f"tls://{place}"]},
        "redis": {"url": f"redis://{place}/0"},
        "redis-tls": {"url": f"rediss://{place}/0"},
        "rabbitmq": {"url": f"amqp://{place}/"},
        "rabbitmq-tls": {"url": f"amqps://{place}/"},
    }
    return configs[kind]


@pytest.mark.parametrize(
    "kind", ["nats", "nats-tls", "redis", "redis-tls", "rabbitmq", "rabbitmq-tls"]
)
async def test_a_broker_s_name_is_resolved_once_and_judged(kind: str, queue_to: Open) -> None:
    answer = [PRIVATE]

    async def lookup(_: int, host: str, __: int) -> list[str]:
        assert host == "rebind.example"
        return answer

    async def hang_up(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read(1)

    async with listening(PUBLIC, hang_up) as public, listening(PRIVATE) as forbidden:
        for answer in ([PRIVATE], [PUBLIC, PRIVATE]):  # noqa: B007 - the resolver reads it
            for port in (public.port, forbidden.port):
                queue = queue_to(kind.removesuffix("-tls"), by_name(kind, port), lookup)
                refused = await queue.deliver(delivery(timeout_seconds=2))
                assert isinstance(refused, Failed)
                assert refused.code == "target_refused"
        assert (public.connections, forbidden.connections) == (0, 0)
        answer = [PUBLIC]
        queue = queue_to(kind.removesuffix("-tls"), by_name(kind, public.port), lookup)
        await queue.deliver(delivery(timeout_seconds=0.5))
        assert public.connections > 0


async def test_no_address_of_the_corpus_is_dialled() -> None:
    async def lookup(_: int, host: str, __: int) -> list[str]:
        return [host]

    guard = Guard(networks(""), lookup)
    for address in ADDRESSES:
        with pytest.raises(TargetRefusedError):
            await guard.dial(1, address, 4222)
    guard.close()


async def test_kafka_connects_to_no_broker_that_the_operator_does_not_list(
    queue_to: Open,
) -> None:
    async with listening(PUBLIC) as other, listening(PUBLIC) as listed:
        for brokers in (
            [f"{PUBLIC}:{other.port}"],
            [f"{PUBLIC}:{listed.port}", f"{PUBLIC}:{other.port}"],
            [f"{PUBLIC}:{listed.port},{PUBLIC}:{other.port}"],
            [f"PLAINTEXT://{PUBLIC}:{other.port}"],
        ):
            queue = queue_to("kafka", {"brokers": brokers}, kafka=f"{PUBLIC}:{listed.port}")
            outcome = await queue.deliver(delivery())
            assert isinstance(outcome, Failed)
            assert (outcome.code, outcome.retryable) == ("target_refused", False)
        assert (other.connections, listed.connections) == (0, 0)


async def test_dead_kafka_brokers_of_one_tenant_delay_nobody_else(queue_to: Open) -> None:
    mock = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "ignored"})
    known = mock.list_topics(timeout=5)
    [alive] = [f"{broker.host}:{broker.port}" for broker in known.brokers.values()]
    async with listening(PUBLIC) as dead:
        brokers = {"dead": f"{PUBLIC}:{dead.port}", "alive": alive}
        queue = queue_to(
            "kafka",
            lambda name: {"brokers": [brokers[name.partition("-")[0]]]},
            kafka=",".join(brokers.values()),
        )
        stuck = [
            asyncio.create_task(queue.deliver(delivery(1, f"dead-{number}", 4)))
            for number in range(18)
        ]
        await eventually(lambda: _came(dead))
        begun = time.monotonic()
        outcome = await queue.deliver(delivery(2, "alive"))
        await asyncio.to_thread(int)
        taken = time.monotonic() - begun
        assert outcome == Completed()
        assert taken < 1.5
        assert await _kinds(stuck) <= {Failed, Throttled}


async def _kinds(deliveries: list[asyncio.Task[Outcome]]) -> set[type]:
    return {type(outcome) for outcome in await asyncio.gather(*deliveries)}
