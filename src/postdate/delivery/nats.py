"""NATS JetStream: a message is done when its stream has stored it."""

import asyncio
import itertools
from collections.abc import Mapping
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

import msgspec
import nats as library
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import (
    AuthorizationError,
    BadSubjectError,
    ConnectionClosedError,
    ConnectionReconnectingError,
    MaxPayloadError,
    NoServersError,
    OutboundBufferLimitError,
)
from nats.errors import Error as NatsError

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
PORT: Final = 4222
GATHER_SECONDS: Final = 0.002
"""How long the first message waits for others: confirmations come one by one, and answering each
with one message would make a system call of every single one."""

_HEADER_BYTES: Final = 4096
"""Room that the headers may take of the server's largest message."""


class NatsSettings(QueueSettings, frozen=True, kw_only=True):
    """How to reach the servers."""

    servers: Annotated[list[str], msgspec.Meta(min_length=1, max_length=16)]
    user: str | None = None
    password: str | None = None
    token: str | None = None


_NOBODY: Final = "503"
"""The server's answer when nobody listens on a subject."""


class _Gate:
    """Lets publishers through together, so that their messages leave in one write."""

    def __init__(self) -> None:
        self._opening: asyncio.Event | None = None

    async def through(self) -> None:
        """Wait until the gate opens, a moment after the first one came."""
        opening = self._opening
        if opening is None:
            opening = self._opening = asyncio.Event()
            asyncio.get_running_loop().call_later(GATHER_SECONDS, self._open, opening)
        await opening.wait()

    def _open(self, opening: asyncio.Event) -> None:
        self._opening = None
        opening.set()


class _Error(msgspec.Struct):
    """Why a stream did not take a message."""

    description: str = "refused"


class _Ack(msgspec.Struct):
    """A stream's answer, as far as it matters here."""

    error: _Error | None = None


_ack: Final = msgspec.json.Decoder(_Ack)


class Nats:
    """Publishes to a subject that a stream listens on.

    Confirmations come to one inbox of this connection. The library's own request would make a
    name, a timer and three layers of calls for each message: half of the price of a delivery.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._inbox = client.new_inbox()
        self._numbers = itertools.count(1)
        self._waiting: dict[str, asyncio.Future[Msg]] = {}
        self._gate = _Gate()

    async def listen(self) -> None:
        """Begin to take confirmations."""
        await self._client.subscribe(f"{self._inbox}.*", cb=self._confirmed)

    async def _confirmed(self, answer: Msg) -> None:
        waiting = self._waiting.get(answer.subject.rpartition(".")[2])
        if waiting is not None and not waiting.done():
            waiting.set_result(answer)

    async def publish(self, message: Message, timeout_seconds: float) -> None:
        """Publish with the job's id as the message id, so that the stream drops a repetition."""
        if len(message.body) + _HEADER_BYTES > self._client.max_payload:
            raise RejectedError("message_too_large", f"over {self._client.max_payload} bytes")
        if not self._client.is_connected:
            raise NotSentError("not connected")
        await self._gate.through()
        try:
            async with asyncio.timeout(timeout_seconds):
                answer = await self._exchange(message)
        except (MaxPayloadError, BadSubjectError) as error:
            raise RejectedError("message_refused", str(error)) from error
        except (
            ConnectionClosedError,
            ConnectionReconnectingError,
            OutboundBufferLimitError,
        ) as error:
            raise NotSentError(str(error)) from error
        except (NatsError, TimeoutError, OSError) as error:
            raise InDoubtError(str(error) or type(error).__name__) from error
        _check(answer, message.subject)

    async def _exchange(self, message: Message) -> Msg:
        """Send a message and wait for what its stream says."""
        number = str(next(self._numbers))
        waiting: asyncio.Future[Msg] = asyncio.get_running_loop().create_future()
        self._waiting[number] = waiting
        headers = {**message.headers, "Nats-Msg-Id": message.id}
        try:
            await self._client.publish(
                message.subject, message.body, reply=f"{self._inbox}.{number}", headers=headers
            )
            return await waiting
        finally:
            del self._waiting[number]

    async def close(self) -> None:
        """Close the connection."""
        try:
            await self._client.close()
        except asyncio.CancelledError:
            # The library cancels its own tasks when the server has gone: nobody cancelled us then.
            current = asyncio.current_task()
            if current is None or current.cancelling():
                raise


async def _open(config: Mapping[str, Any], judge: Judge) -> Broker:
    settings = msgspec.convert(dict(config), NatsSettings)
    for server in settings.servers:
        place = urlsplit(server if "://" in server else f"nats://{server}")
        await judge(place.hostname or "", place.port or PORT)
    options = {
        name: value
        for name in ("user", "password", "token")
        if (value := getattr(settings, name)) is not None
    }
    try:
        client = await library.connect(
            settings.servers,
            connect_timeout=CONNECT_SECONDS,
            allow_reconnect=True,
            max_reconnect_attempts=2,
            reconnect_time_wait=0.1,
            error_cb=_quiet,
            **options,
        )
    except AuthorizationError as error:
        raise RejectedError("credentials_refused", str(error)) from error
    except (NoServersError, NatsError, OSError, TimeoutError) as error:
        raise _why(error) from error
    broker = Nats(client)
    await broker.listen()
    return broker


def _check(answer: Msg, subject: str) -> None:
    """Raise unless the stream has stored the message, now or before."""
    if answer.headers and answer.headers.get("Status") == _NOBODY:
        raise NotSentError(f"no stream listens on {subject}")
    ack = _ack.decode(answer.data)
    if ack.error is not None:
        raise NotSentError(ack.error.description)


def _why(error: Exception) -> NotSentError | RejectedError:
    if "authorization" in str(error).lower():
        return RejectedError("credentials_refused", str(error))
    return NotSentError(str(error) or type(error).__name__)


async def _quiet(_: Exception) -> None:
    """Every failure reaches us through the call that failed."""


NATS: Final = Kind("nats", NatsSettings, _open)
