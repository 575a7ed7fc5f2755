"""Queue destinations against real brokers: confirmed or not complete, down or back, too large."""

import asyncio
import os
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import aio_pika
import msgspec
import nats
import pytest
from confluent_kafka import Consumer, Producer
from redis.asyncio import Redis

from conftest import eventually, scratch
from postdate.delivery.queue import QueueHandler
from postdate.delivery.rabbitmq import RabbitBroker
from postdate.job.spec.outcome import Completed, Delivery, Failed, Throttled, Unknown
from support.local_broker import answers, nats_cluster, valkey
from support.local_queue import connections, queue_to


def delivery(number: int = 1, **changes: Any) -> Delivery:
    made = Delivery(
        job_id=UUID(f"018bcfe5-6801-7003-b831-{number:012x}"),
        token=2,
        attempt=1,
        tenant_id=1,
        lane="default",
        destination={"type": "queue", "name": "q", "subject": "orders"},
        due_at=datetime(2026, 1, 1, tzinfo=UTC),
        timeout_seconds=5,
        payload=b'{"n":%d}' % number,
        content_type="application/json",
        traceparent="00-" + "1" * 32 + "-" + "2" * 16 + "-01",
    )
    return msgspec.structs.replace(made, **changes)


@pytest.fixture
def directory() -> Any:
    with scratch() as path:
        yield path


@pytest.fixture
async def queue_closer() -> AsyncIterator[list[QueueHandler]]:
    queues: list[QueueHandler] = []
    yield queues
    for one in queues:
        await one._connections.close()


async def test_nats_stores_each_message_once_under_the_job_s_id(
    directory: Path, queue_closer: list[QueueHandler]
) -> None:
    async with nats_cluster(directory) as (server,):
        client = await nats.connect(f"nats://127.0.0.1:{server.port}")
        stream = client.jetstream()
        await stream.add_stream(name="orders", subjects=["orders"])
        queue = queue_to("nats", {"servers": [f"nats://127.0.0.1:{server.port}"]})
        queue_closer.append(queue)
        for _ in range(2):  # a repetition, as after a lost confirmation
            assert await queue.deliver(delivery()) == Completed()
        kept = await stream.get_msg("orders", 1)
        assert kept.data == b'{"n":1}'
        assert kept.headers is not None
        assert kept.headers["webhook-id"] == str(delivery().job_id)
        assert kept.headers["postdate-token"] == "2"
        assert kept.headers["traceparent"] == delivery().traceparent
        assert (await stream.stream_info("orders")).state.messages == 1
        large = await queue.deliver(delivery(2, payload=b"x" * 2_000_000))
        assert isinstance(large, Failed)
        assert (large.code, large.retryable) == ("message_too_large", False)
        nobody = await queue.deliver(
            delivery(3, destination={"type": "queue", "name": "q", "subject": "none"})
        )
        assert isinstance(nobody, Failed)
        assert nobody.retryable
        await client.close()


async def test_nats_down_for_longer_than_the_client_waits_is_found_again(
    directory: Path, queue_closer: list[QueueHandler]
) -> None:
    async with nats_cluster(directory) as (server,):
        queue = await _with_stream(server, queue_closer)
        await server.kill()
        [held] = queue._connections._held.values()
        await eventually(partial(_is_closed, held.broker))
        await server.start()
        assert await queue.deliver(delivery(2)) == Completed()


async def test_what_a_killed_nats_server_cannot_confirm_is_in_doubt_at_once(
    directory: Path, queue_closer: list[QueueHandler]
) -> None:
    async with nats_cluster(directory) as (server,):
        queue = await _with_stream(server, queue_closer)
        server.stop()  # what is sent now stays without an answer
        flying = [asyncio.create_task(queue.deliver(delivery(n, timeout_seconds=60)))
                  for n in range(2, 22)]  # fmt: skip
        [held] = queue._connections._held.values()
        await eventually(partial(_waiting, held.broker, len(flying)))
        await server.kill()
        async with asyncio.timeout(5):
            assert {type(outcome) for outcome in await asyncio.gather(*flying)} == {Unknown}
        await server.start()
        async with asyncio.timeout(10):
            while isinstance(outcome := await queue.deliver(delivery(2)), Throttled):
                await wait_for_breaker(outcome)
        assert outcome == Completed()


async def test_a_nats_connection_that_went_deaf_is_not_used_for_ever(
    directory: Path, queue_closer: list[QueueHandler]
) -> None:
    async with nats_cluster(directory) as (server,):
        queue = await _with_stream(server, queue_closer)
        [held] = queue._connections._held.values()
        broker: Any = held.broker
        broker._client._reading_task.cancel()  # as after an error that the library swallows
        assert isinstance(await queue.deliver(delivery(2, timeout_seconds=0.5)), Unknown)
        assert await queue.deliver(delivery(2)) == Completed()


async def _with_stream(server: Any, closer: list[QueueHandler]) -> QueueHandler:
    """Make a queue that has delivered once."""
    url = f"nats://127.0.0.1:{server.port}"
    client = await nats.connect(url)
    await client.jetstream().add_stream(name="orders", subjects=["orders"])
    await client.close()
    queue = queue_to("nats", {"servers": [url]})
    closer.append(queue)
    assert await queue.deliver(delivery(1)) == Completed()
    return queue


async def _waiting(broker: Any, count: int) -> bool:
    return len(broker._waiting) == count


async def _is_closed(broker: Any) -> bool:
    return bool(broker.closed)


@pytest.mark.soak
async def test_nats_cluster_loses_a_node_and_no_message(
    directory: Path, queue_closer: list[QueueHandler]
) -> None:
    async with nats_cluster(directory, 3) as servers:
        urls = [f"nats://127.0.0.1:{server.port}" for server in servers]
        client = await nats.connect(urls)
        stream = client.jetstream(timeout=15)
        async with asyncio.timeout(30):
            while True:
                try:
                    await stream.add_stream(name="orders", subjects=["orders"], num_replicas=3)
                    break
                except (nats.js.errors.Error, nats.errors.Error):
                    await eventually_a_leader()
        queue = queue_to("nats", {"servers": urls})
        queue_closer.append(queue)
        left = {number: delivery(number) for number in range(200)}
        for number in list(left):
            if number == 100:
                await servers[0].kill()
            if isinstance(await queue.deliver(left[number]), Completed):
                del left[number]
        async with asyncio.timeout(30):
            while left:
                for number in list(left):
                    outcome = await queue.deliver(left[number])
                    if isinstance(outcome, Completed):
                        del left[number]
                    elif isinstance(outcome, Throttled):
                        await wait_for_breaker(outcome)
        await client.close()
        client = await nats.connect(urls[1:])
        info = await client.jetstream(timeout=15).stream_info("orders")
        assert info.state.messages == 200
        await client.close()


async def eventually_a_leader() -> None:
    await asyncio.sleep(0.2)


async def wait_for_breaker(outcome: Throttled) -> None:
    await asyncio.sleep(min(outcome.seconds, 1.0))


async def test_valkey_killed_and_back_has_every_confirmed_message(
    directory: Path, queue_closer: list[QueueHandler]
) -> None:
    async with valkey(directory) as server:
        queue = queue_to("redis", {"url": f"redis://127.0.0.1:{server.port}/0"})
        queue_closer.append(queue)
        assert await queue.deliver(delivery(1)) == Completed()
        await server.kill()
        down = await queue.deliver(delivery(2))
        assert isinstance(down, (Failed, Unknown))
        assert isinstance(down, Unknown) or down.retryable
        await server.start()
        assert await queue.deliver(delivery(2)) == Completed()
        client = Redis.from_url(f"redis://127.0.0.1:{server.port}/0")
        rows: Any = await client.xrange("orders")
        assert [fields[b"id"].decode() for _, fields in rows] == [
            str(delivery(1).job_id), str(delivery(2).job_id)
        ]  # fmt: skip
        await client.aclose()


async def test_wrong_credentials_and_private_addresses_are_said_so(directory: Path) -> None:
    async with valkey(directory, "--requirepass", "right") as server:
        url = f"redis://:wrong@127.0.0.1:{server.port}/0"
        config = {"url": url}
        assert "invalid username-password" in str(await connections().try_out(1, "redis", config))
        refused = await queue_to("redis", config, allowed="").deliver(delivery())
        assert isinstance(refused, Failed)
        assert (refused.code, refused.retryable) == ("target_refused", False)


async def test_a_dead_broker_opens_the_breaker_and_is_spared() -> None:
    queue = queue_to("nats", {"servers": ["nats://127.0.0.1:2"]})
    outcomes = [await queue.deliver(delivery(number)) for number in range(12)]
    assert isinstance(outcomes[0], Failed)
    assert outcomes[0].retryable
    assert isinstance(outcomes[-1], Throttled)


async def test_rabbitmq_confirms_and_returns_what_no_queue_wants(
    queue_closer: list[QueueHandler],
) -> None:
    if not await answers(5672):
        pytest.skip("no RabbitMQ answers on 127.0.0.1:5672")
    url = "amqp://guest:guest@127.0.0.1/"
    connection = await aio_pika.connect(url)
    channel = await connection.channel()
    name = f"postdate-test-{os.getpid()}"
    declared = await channel.declare_queue(name, auto_delete=True)
    queue = queue_to("rabbitmq", {"url": url, "subject": name})
    queue_closer.append(queue)
    to_default = {"type": "queue", "name": "q"}
    assert await queue.deliver(delivery(destination=to_default)) == Completed()
    message = await declared.get(timeout=5)
    assert message is not None
    assert (message.message_id, message.body) == (str(delivery().job_id), b'{"n":1}')
    assert message.headers["postdate-attempt"] == "1"
    await message.ack()
    lost = await queue.deliver(
        delivery(destination={"type": "queue", "name": "q", "subject": f"{name}-nobody"})
    )
    assert isinstance(lost, Failed)
    assert "no queue is bound" in lost.error
    await declared.delete()
    await connection.close()


async def test_a_rabbitmq_channel_that_an_error_has_closed_is_not_used_again() -> None:
    connected = asyncio.Event()
    connected.set()
    connection, channel = (SimpleNamespace(is_closed=False, connected=connected) for _ in "ab")
    broker = RabbitBroker(cast("Any", connection), cast("Any", channel), cast("Any", None))
    assert not broker.closed
    channel.is_closed = True
    assert broker.closed


async def test_kafka_reports_each_message_from_librdkafka_s_own_brokers(
    queue_closer: list[QueueHandler],
) -> None:
    """The brokers are those built into librdkafka: its protocol, no real log."""
    mock = Producer({"test.mock.num.brokers": 3, "bootstrap.servers": "ignored"})
    known = await asyncio.to_thread(mock.list_topics, timeout=5)
    brokers = [f"{broker.host}:{broker.port}" for broker in known.brokers.values()]
    queue = queue_to("kafka", {"brokers": brokers}, kafka=",".join(brokers))
    queue_closer.append(queue)
    assert await queue.deliver(delivery()) == Completed()
    large = await queue.deliver(delivery(2, payload=b"x" * 3_000_000))
    assert isinstance(large, Failed)
    assert (large.code, large.retryable) == ("message_too_large", False)
    consumer = Consumer({
        "bootstrap.servers": ",".join(brokers), "group.id": "g", "auto.offset.reset": "earliest"
    })  # fmt: skip
    consumer.subscribe(["orders"])
    message = await asyncio.to_thread(consumer.poll, 10)
    assert message is not None
    assert message.key() == str(delivery().job_id).encode()
    assert dict(message.headers() or [])["webhook-id"] == str(delivery().job_id).encode()
    consumer.close()


@pytest.mark.parametrize(
    ("kind", "config", "says"),
    [
        ("nats", {}, "servers"),
        ("nats", {"servers": []}, "servers"),
        ("redis", {"url": "redis://x", "colour": 1}, "colour"),
        ("kafka", {"brokers": ["x:1"], "plugin.library.paths": "x"}, "plugin.library.paths"),
    ],
)
async def test_settings_of_a_wrong_shape_are_refused(kind: str, config: Any, says: str) -> None:
    refusal = await connections().check(kind, config)
    assert refusal is not None
    assert says in refusal.detail
