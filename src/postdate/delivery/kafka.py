"""Kafka: an idempotent producer; a message is done when every in-sync replica has it."""

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Annotated, Any, Final

import msgspec
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka import Message as Report

from postdate.delivery.broker import (
    Broker,
    InDoubtError,
    Judge,
    Kind,
    Message,
    NotSentError,
    QueueSettings,
    RejectedError,
)

CONNECT_SECONDS: Final = 5.0
POLL_SECONDS: Final = 0.1
PORT: Final = 9092
_TOO_LARGE: Final = frozenset({KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_MSG})
# ruff: noqa: SLF001 - librdkafka's local errors begin with an underscore
_IN_DOUBT: Final = frozenset({KafkaError._MSG_TIMED_OUT, KafkaError.REQUEST_TIMED_OUT})
_CREDENTIALS: Final = frozenset({KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED})


def _dotted(name: str) -> str:
    return name.replace("_", ".")


class KafkaSettings(QueueSettings, frozen=True, kw_only=True, rename=_dotted):
    """How to reach the brokers, in librdkafka's names.

    Only these: others of librdkafka's settings read files or load libraries on this machine.
    """

    brokers: Annotated[list[str], msgspec.Meta(min_length=1, max_length=16)]
    security_protocol: str = "plaintext"
    sasl_mechanism: str | None = None
    sasl_username: str | None = None
    sasl_password: str | None = None
    ssl_ca_pem: str | None = None
    compression_type: str = "none"


class Kafka:
    """Produces to the topic that a job's subject names, keyed by what must stay in order."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer
        self._polling = asyncio.create_task(self._poll())

    async def _poll(self) -> None:
        """Let librdkafka deliver its reports; it blocks, so it gets a thread."""
        while True:
            await asyncio.to_thread(self._producer.poll, POLL_SECONDS)

    async def publish(self, message: Message, timeout_seconds: float) -> None:
        """Produce, and wait for the report of this message."""
        loop = asyncio.get_running_loop()
        reported: asyncio.Future[KafkaError | None] = loop.create_future()

        def report(error: KafkaError | None, _: Report) -> None:
            loop.call_soon_threadsafe(_settle, reported, error)

        try:
            self._producer.produce(
                message.subject,
                message.body,
                key=message.key.encode(),
                headers=[(name, value.encode()) for name, value in message.headers.items()],
                on_delivery=report,
            )
        except BufferError as error:
            raise NotSentError(str(error)) from error
        except KafkaException as error:
            raise _refused(error.args[0]) from error
        try:
            async with asyncio.timeout(timeout_seconds):
                problem = await reported
        except TimeoutError as error:
            raise InDoubtError("no report came in time") from error
        if problem is not None:
            raise _refused(problem)

    async def close(self) -> None:
        """Send what is left, then stop."""
        self._polling.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._polling
        await asyncio.to_thread(self._producer.flush, CONNECT_SECONDS)


def _settle(reported: asyncio.Future[KafkaError | None], error: KafkaError | None) -> None:
    if not reported.done():
        reported.set_result(error)


def _refused(error: KafkaError) -> Exception:
    if error.code() in _TOO_LARGE:
        return RejectedError("message_too_large", error.str())
    if error.code() in _IN_DOUBT:
        return InDoubtError(error.str())
    return NotSentError(error.str())


async def _open(config: Mapping[str, Any], judge: Judge) -> Broker:
    settings = msgspec.convert(dict(config), KafkaSettings)
    for broker in settings.brokers:
        host, _, port = broker.rpartition(":")
        await judge(host or broker, int(port) if port.isdigit() else PORT)
    try:
        options = {k: v for k, v in msgspec.to_builtins(settings).items() if v is not None}
        options.pop("subject", None)
        producer = Producer(
            {
                "bootstrap.servers": ",".join(options.pop("brokers")),
                **options,
                "enable.idempotence": True,
                "log_level": 0,
            }
        )
        await asyncio.to_thread(producer.list_topics, timeout=CONNECT_SECONDS)
    except KafkaException as error:
        problem: KafkaError = error.args[0]
        if problem.code() in _CREDENTIALS:
            raise RejectedError("credentials_refused", problem.str()) from error
        raise NotSentError(problem.str()) from error
    return Kafka(producer)


KAFKA: Final = Kind("kafka", KafkaSettings, _open)
