"""RabbitMQ: publisher confirms, and mandatory routing, so that no message vanishes."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

import aio_pika
import msgspec
from aio_pika.abc import AbstractConnection, AbstractExchange
from aio_pika.exceptions import (
    AMQPConnectionError,
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
from yarl import URL

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

CONNECT_SECONDS: Final = 3
PORT: Final = 5672
PORT_TLS: Final = 5671


class RabbitSettings(QueueSettings, frozen=True, kw_only=True):
    """How to reach the server; the empty exchange routes straight to the queue of that name."""

    url: str
    exchange: str = ""


class Rabbit:
    """Publishes to one exchange; a job's subject is the routing key."""

    def __init__(self, connection: AbstractConnection, exchange: AbstractExchange) -> None:
        self._connection = connection
        self._exchange = exchange

    async def publish(self, message: Message, timeout_seconds: float) -> None:
        """Publish persistently and wait for the confirmation."""
        if self._connection.is_closed:
            raise NotSentError("not connected")
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
            raise InDoubtError(str(error) or type(error).__name__) from error

    async def close(self) -> None:
        """Close the connection."""
        await self._connection.close()


async def _open(config: Mapping[str, Any], judge: Judge) -> Broker:
    settings = msgspec.convert(dict(config), RabbitSettings)
    url = URL(settings.url)
    if url.scheme not in {"amqp", "amqps"} or not url.host:
        raise RejectedError("invalid_url", "the URL begins with amqp:// or amqps://")
    await judge(url.host, url.explicit_port or (PORT_TLS if url.scheme == "amqps" else PORT))
    try:
        connection = await aio_pika.connect(settings.url, timeout=CONNECT_SECONDS)
        channel = await connection.channel(publisher_confirms=True, on_return_raises=True)
        exchange = (
            await channel.get_exchange(settings.exchange)
            if settings.exchange
            else channel.default_exchange
        )
    except (AuthenticationError, ProbableAuthenticationError) as error:
        raise RejectedError("credentials_refused", str(error)) from error
    except ChannelNotFoundEntity as error:
        raise RejectedError("exchange_missing", str(error)) from error
    except (AMQPConnectionError, AMQPError, OSError, TimeoutError) as error:
        raise NotSentError(str(error) or type(error).__name__) from error
    return Rabbit(connection, exchange)


RABBITMQ: Final = Kind("rabbitmq", RabbitSettings, _open)
