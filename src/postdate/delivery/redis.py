"""Redis and Valkey streams: a message is done when XADD has answered.

No redirect is followed: MOVED is an error to it, and the second version of the protocol has no
push messages that would name another host. What it connects to, it connects to by the guard.
"""

import asyncio
import ssl
from typing import Annotated, Any, Final

import msgspec
from redis.asyncio import ConnectionPool
from redis.asyncio import Redis as Client
from redis.asyncio.connection import AbstractConnection
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
from redis.retry import Retry

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
    UrlSettings,
    read_url,
    refuse_url,
)
from postdate.delivery.tls import tls_context
from postdate.words.error import Code, Refusal

PORTS: Final = {"redis": 6379, "rediss": 6379}
MAX_DATABASE: Final = 4
"""Most digits of a database's number."""

RESP: Final = 2


class RedisSettings(UrlSettings, frozen=True, kw_only=True):
    """How to reach the server, and about how many messages a stream may keep."""

    max_length: Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)] | None = None


class _Connection(AbstractConnection):
    """A connection of the library that is opened by the guard; it has no other way to open one."""

    def __init__(
        self, *, host: str, port: int, dial: Dial, tls: ssl.SSLContext | None, **more: Any
    ) -> None:
        self.host = host
        self.port = port
        self._dial = dial
        self._tls = tls
        super().__init__(**more)

    async def _connect(self) -> None:
        async with asyncio.timeout(CONNECT_SECONDS):
            self._reader, self._writer = await self._dial(self.host, self.port, self._tls)

    def repr_pieces(self) -> list[tuple[str, Any]]:
        return [("host", self.host), ("port", self.port)]

    def _host_error(self) -> str:
        return f"{self.host}:{self.port}"


class RedisBroker:
    """Appends to the stream that a job's subject names."""

    closed = False

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
            raise DeliveryInDoubtError(str(error) or type(error).__name__) from error

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()


async def _open(settings: RedisSettings, access: BrokerAccess) -> QueueBroker:
    client = _client(settings, access.dial)
    try:
        await client.ping()
    except BaseException as error:
        await client.aclose()
        if isinstance(error, AuthenticationError | NoPermissionError):
            raise RejectedError("credentials_refused", str(error)) from error
        raise
    return RedisBroker(client, settings.max_length)


def _client(settings: RedisSettings, dial: Dial) -> Client:
    url = read_url(settings.url, PORTS)
    pool = ConnectionPool(
        connection_class=_Connection,
        host=str(url.host),
        port=url.port,
        dial=dial,
        tls=tls_context(settings.ca_pem) if url.scheme == "rediss" else None,
        db=int(url.path or 0),
        username=url.user,
        password=url.password,
        protocol=RESP,
        # No retries inside: a repeated XADD would be a duplicate that we know nothing of.
        retry=Retry(NoBackoff(), 0),
    )
    return Client.from_pool(pool)


def _refuse(settings: RedisSettings, permitted: Permitted) -> Refusal | None:
    if refusal := refuse_url(settings, PORTS, permitted):
        return refusal
    if not _is_database(read_url(settings.url, PORTS).path):
        return Refusal(Code.INVALID_FIELD, "The path is the number of a database.", "config")
    return None


def _is_database(path: str) -> bool:
    return not path or (path.isascii() and path.isdigit() and len(path) <= MAX_DATABASE)


REDIS: Final = BrokerKind("redis", RedisSettings, _refuse, _open)
