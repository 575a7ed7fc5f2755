"""Redis and Valkey streams: a message is done when XADD has answered."""

from collections.abc import Mapping
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

import msgspec
from redis.asyncio import Redis as Client
from redis.backoff import NoBackoff
from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
)
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.retry import Retry

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
PORT: Final = 6379


class RedisSettings(QueueSettings, frozen=True, kw_only=True):
    """How to reach the server, and about how many messages a stream may keep."""

    url: str
    max_length: Annotated[int, msgspec.Meta(ge=1)] | None = None


class Streams:
    """Appends to the stream that a job's subject names."""

    def __init__(self, client: Client, max_length: int | None) -> None:
        self._client = client
        self._max_length = max_length

    async def publish(self, message: Message, timeout_seconds: float) -> None:
        """Append the message; consumers find the job's id in the field `id`."""
        fields: dict[Any, Any] = {
            "id": message.id,
            "payload": message.body,
            "headers": msgspec.json.encode(message.headers),
        }
        del timeout_seconds  # the handler's own deadline ends the wait
        try:
            await self._client.xadd(
                message.subject, fields, maxlen=self._max_length, approximate=True
            )
        except (OutOfMemoryError, ReadOnlyError, BusyLoadingError) as error:
            raise NotSentError(str(error)) from error
        except (NoPermissionError, ResponseError) as error:
            raise RejectedError("message_refused", str(error)) from error
        except (RedisError, OSError, TimeoutError) as error:
            raise InDoubtError(str(error) or type(error).__name__) from error

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()


async def _open(config: Mapping[str, Any], judge: Judge) -> Broker:
    settings = msgspec.convert(dict(config), RedisSettings)
    place = urlsplit(settings.url)
    if place.scheme not in {"redis", "rediss"} or not place.hostname:
        raise RejectedError("invalid_url", "the URL begins with redis:// or rediss://")
    await judge(place.hostname, place.port or PORT)
    # No retries inside: a repeated XADD would be a duplicate that we know nothing of.
    client = Client.from_url(
        settings.url, socket_connect_timeout=CONNECT_SECONDS, retry=Retry(NoBackoff(), 0)
    )
    try:
        await client.ping()
    except (AuthenticationError, NoPermissionError) as error:
        await client.aclose()
        raise RejectedError("credentials_refused", str(error)) from error
    except (RedisConnectionError, RedisError, OSError, TimeoutError) as error:
        await client.aclose()
        raise NotSentError(str(error) or type(error).__name__) from error
    return Streams(client, settings.max_length)


REDIS: Final = Kind("redis", RedisSettings, _open)
