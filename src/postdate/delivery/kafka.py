"""Kafka: an idempotent producer; a message is done when every in-sync replica has it.

librdkafka opens its connections itself, to wherever a broker's metadata says, and lets Python
neither resolve nor connect for it. So nothing here can be guarded: only brokers that the operator
lists are used, and those are trusted in what they advertise.
"""

import asyncio
from typing import Annotated, Any, Final, Literal

import msgspec
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka import Message as Report

from postdate.delivery.broker import (
    BrokerAccess,
    BrokerKind,
    DeliveryInDoubtError,
    Message,
    NotSentError,
    Permitted,
    QueueBroker,
    QueueSettings,
    RejectedError,
    Text,
)
from postdate.destination.spec.broker_url import kafka_broker
from postdate.destination.spec.target import Malformed
from postdate.words.error import Code, Refusal

CONNECT_SECONDS: Final = 5.0
POLL_SECONDS: Final = 0.001
"""How often librdkafka is asked for reports, while any is waited for. Asking takes microseconds;
a thread that waits for them would be one for each destination."""

POLL_SECONDS_IN_VAIN: Final = 0.02
POLLS_IN_VAIN: Final = 20
"""After this many polls without a report it is polled less often: its broker may be gone."""

_TOO_LARGE: Final = frozenset({KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_MSG})
# ruff: noqa: SLF001 - librdkafka's local errors begin with an underscore
_IN_DOUBT: Final = frozenset({KafkaError._MSG_TIMED_OUT, KafkaError.REQUEST_TIMED_OUT})
_CREDENTIALS: Final = frozenset({KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED})


def _dotted(name: str) -> str:
    return name.replace("_", ".")


class KafkaSettings(QueueSettings, frozen=True, kw_only=True, rename=_dotted):
    """How to reach the brokers, in librdkafka's names.

    Only these: others of librdkafka's settings read files, run commands or load libraries on this
    machine.
    """

    brokers: Annotated[list[Text], msgspec.Meta(min_length=1, max_length=16)]
    security_protocol: Literal["plaintext", "ssl", "sasl_plaintext", "sasl_ssl"] = "plaintext"
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = None
    sasl_username: Text | None = None
    sasl_password: Text | None = None
    ssl_ca_pem: str | None = None
    compression_type: Literal["none", "gzip", "snappy", "lz4", "zstd"] = "none"


class KafkaBroker:
    """Produces to the topic that a job's subject names, keyed by what must stay in order."""

    closed = False

    def __init__(self, producers: list[Producer], access: BrokerAccess) -> None:
        self._producers = producers
        self._access = access
        self._waiting = 0
        self._polling: asyncio.Task[None] | None = None

    async def _poll(self) -> None:
        """Let librdkafka deliver its reports as long as a delivery waits for one."""
        in_vain = 0
        while self._waiting and self._producers:
            in_vain = 0 if self._producers[0].poll(0) else in_vain + 1
            often = in_vain < POLLS_IN_VAIN
            await asyncio.sleep(POLL_SECONDS if often else POLL_SECONDS_IN_VAIN)

    async def publish(self, message: Message, timeout_seconds: float) -> None:
        """Produce, and wait for the report of this message."""
        if not self._producers:
            raise NotSentError("not connected")
        reported: asyncio.Future[KafkaError | None] = asyncio.get_running_loop().create_future()

        def report(error: KafkaError | None, _: Report) -> None:
            if not reported.done():
                reported.set_result(error)

        try:
            self._producers[0].produce(
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
                problem = await self._reported(reported)
        except TimeoutError as error:
            raise DeliveryInDoubtError("no report came in time") from error
        if problem is not None:
            raise _refused(problem)

    async def _reported(self, reported: "asyncio.Future[KafkaError | None]") -> KafkaError | None:
        self._waiting += 1
        if self._polling is None or self._polling.done():
            self._polling = asyncio.create_task(self._poll())
        try:
            return await reported
        finally:
            self._waiting -= 1

    async def close(self) -> None:
        """Stop. What is left unsent was given up by its delivery, which is tried again."""
        producers, self._producers = self._producers, []
        self._access.finish_in_thread(lambda: _end(producers))


def _end(producers: list[Producer]) -> None:
    """Drop producers in this thread: librdkafka waits for threads of its own when it ends."""
    while producers:
        producer = producers.pop()
        producer.purge()
        producer.flush(0)


def _refused(error: KafkaError) -> Exception:
    if error.code() in _TOO_LARGE:
        return RejectedError("message_too_large", error.str())
    if error.code() in _IN_DOUBT:
        return DeliveryInDoubtError(error.str())
    return NotSentError(error.str())


async def _open(settings: KafkaSettings, access: BrokerAccess) -> QueueBroker:
    options = {k: v for k, v in msgspec.to_builtins(settings).items() if v is not None}
    options.pop("subject", None)
    options["bootstrap.servers"] = ",".join(_names(options.pop("brokers")))
    options |= {"enable.idempotence": True, "log_level": 0}
    opened = await access.run_in_thread(lambda: _connected(options), _discard)
    match opened:
        case KafkaError():
            if opened.code() in _CREDENTIALS:
                raise RejectedError("credentials_refused", opened.str())
            raise NotSentError(opened.str())
        case producers:
            return KafkaBroker(producers, access)


def _connected(options: dict[str, Any]) -> list[Producer] | KafkaError:
    """Make a producer that has seen its brokers; one that fails is dropped in this thread.

    It comes in a list, so that taking it leaves no reference behind.
    """
    producers = []
    try:
        producers.append(Producer(options))
        producers[0].list_topics(timeout=CONNECT_SECONDS)
    except KafkaException as error:
        _end(producers)
        problem: KafkaError = error.args[0]
        return problem
    return producers


def _discard(opened: list[Producer] | KafkaError) -> None:
    if isinstance(opened, list):
        _end(opened)


def _names(brokers: list[str]) -> list[str]:
    """Write brokers as `host:port`: librdkafka takes a comma inside a name for two of them."""
    names = []
    for broker in brokers:
        name = kafka_broker(broker)
        if isinstance(name, Malformed):
            raise RejectedError("invalid_url", name.reason)
        names.append(name)
    return names


def _refuse(settings: KafkaSettings, permitted: Permitted) -> Refusal | None:
    for broker in settings.brokers:
        match kafka_broker(broker):
            case Malformed(reason):
                return Refusal(Code.INVALID_FIELD, f"A broker {reason}.", "config")
            case name if name not in permitted.kafka_brokers:
                return Refusal(
                    Code.TARGET_NOT_ALLOWED,
                    f"{name} is not among the Kafka brokers that the operator lists.",
                    "config",
                )
    return None


KAFKA: Final = BrokerKind("kafka", KafkaSettings, _refuse, _open)
