"""NATS JetStream: a message is done when its stream has stored it.

Servers announce other servers, and the client may connect there if its own is lost: through the
guard, like the first. Websockets are not supported: their library opens connections and follows
redirects itself.
"""

import asyncio
import itertools
from ipaddress import IPv6Address
from typing import Annotated, Any, Final
from urllib.parse import ParseResult

import msgspec
from nats.aio.client import Client, Srv
from nats.aio.msg import Msg
from nats.aio.transport import TcpTransport
from nats.errors import (
    AuthorizationError,
    BadSubjectError,
    ConnectionClosedError,
    ConnectionReconnectingError,
    MaxPayloadError,
    OutboundBufferLimitError,
)
from nats.errors import Error as NatsError

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
    QueueSettings,
    RejectedError,
    Text,
    read_url,
    refuse_authority,
)
from postdate.delivery.guard import TargetRefusedError
from postdate.delivery.tls import tls_context
from postdate.destination.spec.broker_url import check_broker_url
from postdate.destination.spec.target import URL_CHARACTERS
from postdate.words.error import Code, Refusal

PORTS: Final = {"nats": 4222, "tls": 4222}
MAX_SERVERS: Final = 16
GATHER_SECONDS: Final = 0.002
"""How long the first message waits for others: confirmations come one by one, and answering each
with one message would make a system call of every single one."""

_HEADER_BYTES: Final = 4096
"""Room that the headers may take of the server's largest message."""


class NatsSettings(QueueSettings, frozen=True, kw_only=True):
    """How to reach the servers."""

    servers: Annotated[
        list[Annotated[str, msgspec.Meta(max_length=URL_CHARACTERS)]],
        msgspec.Meta(min_length=1, max_length=MAX_SERVERS),
    ]
    user: Text | None = None
    password: Text | None = None
    token: Text | None = None
    ca_pem: str | None = None


class _NatsTransport(TcpTransport):
    """The library's connection, opened by the guard."""

    def __init__(self, dial: Dial) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._dial = dial
        self._tls_wanted = False

    async def connect(self, uri: ParseResult, buffer_size: int, connect_timeout: int) -> None:
        if self._bare_io_writer is not None:
            # The library forgets a connection whose greeting failed.
            self._bare_io_writer.transport.abort()
        self._tls_wanted = uri.scheme == "tls"
        async with asyncio.timeout(connect_timeout):
            reader, writer = await self._dial(
                uri.hostname or "", uri.port or PORTS["nats"], None, buffer_size
            )
        self._bare_io_reader = self._io_reader = reader
        self._bare_io_writer = self._io_writer = writer

    async def connect_tls(self, *args: Any, **more: Any) -> None:
        await super().connect_tls(*args, **more)
        self._tls_wanted = False

    def write(self, payload: bytes) -> None:
        """Send nothing unencrypted to a `tls://` server."""
        if self._tls_wanted:
            raise ConnectionError("the server does not offer TLS")
        super().write(payload)  # type: ignore[no-untyped-call]

    def __bool__(self) -> bool:
        """Be kept by the library, which takes a transport without a connection for none."""
        return True


class _Client(Client):
    """The library's client, which knows no transport but the guarded one.

    A list of other servers that a server sends is cut to what a tenant could have written.
    """

    def __init__(self, dial: Dial) -> None:
        super().__init__()
        self._dial = dial
        self.refused: TargetRefusedError | None = None
        self.broker: NatsBroker | None = None

    def stay_lost(self) -> None:
        """Close the client when the connection is lost: the library's reconnect can get stuck."""
        self.options["allow_reconnect"] = False

    async def _close(self, status: int, do_cbs: bool = True) -> None:  # noqa: FBT001, FBT002
        if self.broker is not None:
            self.broker.lose()
        await super()._close(status, do_cbs)

    async def _connect_to_server(self, s: Srv) -> None:
        if not isinstance(self._transport, _NatsTransport):
            self._transport = _NatsTransport(self._dial)
        try:
            await super()._connect_to_server(s)
        except TargetRefusedError as error:
            self.refused = error
            raise

    async def _process_info(
        self,
        info: dict[str, Any],
        initial_connection: bool = False,  # noqa: FBT001, FBT002 - the library's
    ) -> None:
        others = info.get("connect_urls")
        known = others[:MAX_SERVERS] if isinstance(others, list) else []
        info["connect_urls"] = [each for each in known if isinstance(each, str)]
        await super()._process_info(info, initial_connection)
        del self._server_pool[2 * MAX_SERVERS :]


_NOBODY: Final = "503"
"""The server's answer when no one is subscribed to a subject."""


class _Gate:
    """Lets publishers through together, so that their messages leave in one write."""

    def __init__(self) -> None:
        self._opening: asyncio.Event | None = None

    async def wait_open(self) -> None:
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


class NatsBroker:
    """Publishes to a subject that a stream listens on.

    Confirmations come to one inbox of this connection. The library's own request would make a
    name, a timer and three layers of calls for each message: half of the price of a delivery.
    """

    def __init__(self, client: _Client) -> None:
        self._client = client
        client.broker = self
        self._inbox = client.new_inbox()
        self._numbers = itertools.count(1)
        self._waiting: dict[str, asyncio.Future[Msg]] = {}
        self._gate = _Gate()

    @property
    def closed(self) -> bool:
        """Return whether the connection is lost."""
        return self._client.is_closed

    async def listen(self) -> None:
        """Subscribe to confirmations."""
        await self._client.subscribe(f"{self._inbox}.*", cb=self._confirmed)

    async def _confirmed(self, answer: Msg) -> None:
        waiting = self._waiting.get(answer.subject.rpartition(".")[2])
        if waiting is not None and not waiting.done():
            waiting.set_result(answer)

    def lose(self) -> None:
        """Mark unconfirmed messages as in doubt immediately."""
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(ConnectionResetError("the connection was lost"))

    async def publish(self, message: Message, timeout_seconds: float) -> None:
        """Publish with the job's id as the message id, so that the stream drops a repetition."""
        if len(message.body) + _HEADER_BYTES > self._client.max_payload:
            raise RejectedError("message_too_large", f"over {self._client.max_payload} bytes")
        if not self._client.is_connected:
            raise NotSentError("not connected")
        await self._gate.wait_open()
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
            raise DeliveryInDoubtError(str(error) or type(error).__name__) from error
        _check(answer, message.subject)

    async def _exchange(self, message: Message) -> Msg:
        """Send a message and wait for the stream's answer."""
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
            # The library cancels its own tasks when the server has gone: we are not cancelled.
            current = asyncio.current_task()
            if current is None or current.cancelling():
                raise


async def _open(settings: NatsSettings, access: BrokerAccess) -> QueueBroker:
    client = _Client(access.dial)
    try:
        await client.connect(
            [_url(server) for server in settings.servers],
            connect_timeout=CONNECT_SECONDS,
            allow_reconnect=True,
            max_reconnect_attempts=2,
            reconnect_time_wait=0.1,  # type: ignore[arg-type]
            error_cb=_quiet,
            tls=tls_context(settings.ca_pem),
            user=settings.user,
            password=settings.password,
            token=settings.token,
        )
        broker = NatsBroker(client)
        await broker.listen()
        client.stay_lost()
    except AuthorizationError as error:
        raise RejectedError("credentials_refused", str(error)) from error
    except (NatsError, OSError, TimeoutError) as error:
        raise client.refused or _why(error) from error
    except BaseException:
        await client.close()
        raise
    return broker


def _url(server: str) -> str:
    """Write a server's address from its parts, as the library wants it."""
    url = read_url(_with_scheme(server), PORTS)
    host = f"[{url.host}]" if isinstance(url.host, IPv6Address) else url.host
    return f"{url.scheme}://{host}:{url.port}"


def _with_scheme(server: str) -> str:
    return server if "://" in server else f"nats://{server}"


def _refuse(settings: NatsSettings, permitted: Permitted) -> Refusal | None:
    for server in settings.servers:
        url = _with_scheme(server)
        if refusal := check_broker_url(url, PORTS, permitted.networks):
            return refusal
        parsed = read_url(url, PORTS)
        if parsed.path or parsed.user or parsed.password is not None:
            return Refusal(
                Code.INVALID_FIELD,
                "A server is written nats://host:port; `user`, `password` and `token` are fields.",
                "config",
            )
    return refuse_authority(settings.ca_pem)


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


NATS: Final = BrokerKind("nats", NatsSettings, _refuse, _open)
