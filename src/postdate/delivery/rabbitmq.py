"""RabbitMQ: publisher confirms, and mandatory routing, so that no message vanishes.

The protocol knows no redirection, and a lost connection is not restored by the library: the guard
opens the one connection there is.
"""

import asyncio
from typing import Any, Final

import aio_pika
from aio_pika.abc import AbstractChannel, AbstractConnection, AbstractExchange
from aio_pika.exceptions import (
    AMQPError,
    AuthenticationError,
    ChannelClosed,
    ChannelInvalidStateError,
    ChannelNotFoundEntity,
    ConnectionClosed,
    DeliveryError,
    ProbableAuthenticationError,
    PublishError,
)
from aiormq.connection import TransportFactory
from yarl import URL

from postdate.delivery.broker import (
    CONNECT_SECONDS,
    BrokerAccess,
    BrokerKind,
    DeliveryInDoubtError,
    Dial,
    Message,
    NotSentError,
    Permitted,
    QueueBroker,
    RejectedError,
    Text,
    UrlSettings,
    read_url,
    refuse_url,
)
from postdate.delivery.tls import tls_context
from postdate.words.error import Refusal

PORTS: Final = {"amqp": 5672, "amqps": 5671}
USER: Final = "guest"
SHORT_BYTES: Final = 255
"""Longest routing key of the protocol."""


class RabbitSettings(UrlSettings, frozen=True, kw_only=True):
    """How to reach the server; the empty exchange routes straight to the queue of that name."""

    exchange: Text = ""


class _RabbitTransport(TransportFactory):
    """Opens the library's connection by the guard."""

    def __init__(self, dial: Dial, ca_pem: str | None) -> None:
        self._dial = dial
        self._ca_pem = ca_pem

    async def create(self, url: URL, **_: Any) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        tls = tls_context(self._ca_pem) if url.scheme == "amqps" else None
        return await self._dial(str(url.host), int(url.port or PORTS[url.scheme]), tls)


class RabbitBroker:
    """Publishes to one exchange; a job's subject is the routing key."""

    def __init__(
        self, connection: AbstractConnection, channel: AbstractChannel, exchange: AbstractExchange
    ) -> None:
        self._connection = connection
        self._channel = channel
        self._exchange = exchange

    @property
    def closed(self) -> bool:
        """Return whether the server or we have closed it; an error may close the channel alone."""
        connection = self._connection
        return connection.is_closed or not connection.connected.is_set() or self._channel.is_closed

    async def publish(self, message: Message, timeout_seconds: float) -> None:
        """Publish persistently and wait for the confirmation."""
        if self.closed:
            raise NotSentError("not connected")
        if len(message.subject.encode()) > SHORT_BYTES:
            raise RejectedError("message_refused", f"a routing key has {SHORT_BYTES} bytes at most")
        sent = aio_pika.Message(
            message.body,
            message_id=message.id,
            headers=dict(message.headers),
            content_type=message.headers.get("content-type"),
            delivery_mode=aio_pika.DeliveryMode.PERSISTENT,
        )
        try:
            async with asyncio.timeout(timeout_seconds):
                await self._exchange.publish(sent, message.subject, mandatory=True)
        except PublishError as error:
            raise NotSentError(f"no queue is bound for {message.subject}") from error
        except DeliveryError as error:
            raise NotSentError("the broker refused to store it") from error
        except ChannelNotFoundEntity as error:
            raise NotSentError(f"there is no such exchange: {error}") from error
        except ChannelInvalidStateError as error:
            raise NotSentError(str(error)) from error
        except (ChannelClosed, ConnectionClosed, AMQPError, TimeoutError, OSError) as error:
            raise DeliveryInDoubtError(str(error) or type(error).__name__) from error

    async def close(self) -> None:
        """Close the connection."""
        await self._connection.close()


async def _open(settings: RabbitSettings, access: BrokerAccess) -> QueueBroker:
    connection = aio_pika.Connection(_url(settings))
    connection.kwargs["transport_factory"] = _RabbitTransport(access.dial, settings.ca_pem)
    try:
        return await _connect(connection, settings.exchange)
    except BaseException as error:
        await connection.close()
        if isinstance(error, AuthenticationError | ProbableAuthenticationError):
            raise RejectedError("credentials_refused", str(error)) from error
        if isinstance(error, ChannelNotFoundEntity):
            raise RejectedError("exchange_missing", str(error)) from error
        raise


async def _connect(connection: aio_pika.Connection, name: str) -> RabbitBroker:
    await connection.connect(timeout=CONNECT_SECONDS)
    channel = await connection.channel(publisher_confirms=True, on_return_raises=True)
    exchange = await channel.get_exchange(name) if name else channel.default_exchange
    return RabbitBroker(connection, channel, exchange)


def _url(settings: RabbitSettings) -> URL:
    url = read_url(settings.url, PORTS)
    virtual_host = "" if url.path == "/" else url.path
    return URL.build(
        scheme=url.scheme,
        user=url.user or USER,
        password=url.password or USER,
        host=str(url.host),
        port=url.port,
        path=f"/{virtual_host}",
    )


def _refuse(settings: RabbitSettings, permitted: Permitted) -> Refusal | None:
    return refuse_url(settings, PORTS, permitted)


RABBITMQ: Final = BrokerKind("rabbitmq", RabbitSettings, _refuse, _open)
