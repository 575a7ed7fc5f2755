"""The interface of adapters for queue brokers, and the errors they raise."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, Final, Protocol, TypeVar

import msgspec

from postdate.delivery.tls import tls_context
from postdate.destination.spec.broker_url import BrokerUrl, check_broker_url, parse_broker_url
from postdate.destination.spec.target import Malformed, Networks
from postdate.words.error import Code, Refusal

T = TypeVar("T")

CONNECT_SECONDS: Final = 3
"""How long a connection of a client library may take to open."""

Text = Annotated[str, msgspec.Meta(max_length=2048)]


class Message(msgspec.Struct, frozen=True):
    """A message to publish. `id` is the job's id, the same for all attempts.

    A partitioned broker must keep messages with the same `key` in order.
    """

    id: str
    subject: str
    body: bytes
    headers: Mapping[str, str]
    key: str


class QueueSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every kind has: the subject of jobs that name none."""

    subject: Text | None = None


class UrlSettings(QueueSettings, frozen=True, kw_only=True):
    """A broker that is reached by a URL; `ca_pem` is the authority of its certificate."""

    url: str
    ca_pem: str | None = None


class NotSentError(Exception):
    """The message has certainly not reached the broker; it may be retried."""


class RejectedError(Exception):
    """The broker refused the message permanently: it is too large, or the subject is invalid."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(reason)
        self.code = code


class DeliveryInDoubtError(Exception):
    """The message was sent and no confirmation came: it may or may not have been stored."""


class QueueBroker(Protocol):
    """One connection to a broker. `publish` returns only after the broker has confirmed.

    A connection that is `closed` stays so; the next delivery opens another.
    """

    @property
    def closed(self) -> bool:
        """Return whether the connection can no longer publish."""

    async def publish(self, message: Message, timeout_seconds: float) -> None:
        """Publish and wait for the confirmation; raise one of the three errors above."""

    async def close(self) -> None:
        """Close the connection."""


class Dial(Protocol):
    """Opens a connection through the guard, on behalf of the destination's tenant."""

    async def __call__(
        self, host: str, port: int, tls: ssl.SSLContext | None = ..., buffer_bytes: int = ...
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect; raise TargetRefusedError, LookupBusyError or OSError."""


class RunInThread(Protocol):
    """Runs a blocking call in the tenant's share of the brokers' threads."""

    async def __call__(self, call: Callable[[], T], discard: Callable[[T], None] | None = ...) -> T:
        """Run it; raise ThreadsBusyError. `discard` gets a result that came too late."""


class BrokerAccess(msgspec.Struct, frozen=True):
    """Everything that an adapter may use to reach the network.

    `finish_in_thread` is for what gives something back: it needs no share and is not waited for.
    """

    dial: Dial
    run_in_thread: RunInThread
    finish_in_thread: Callable[[Callable[[], None]], None]


class Permitted(msgspec.Struct, frozen=True):
    """What the operator permits: private networks, and Kafka brokers as `host:port`."""

    networks: Networks = ()
    kafka_brokers: frozenset[str] = frozenset()


class BrokerKind(msgspec.Struct, frozen=True):
    """One kind of queue: how its settings look, what is refused in them, how it is opened.

    `open` raises NotSentError or RejectedError, or what `BrokerAccess` raises.
    """

    name: str
    settings: type[QueueSettings]
    refuse: Callable[[Any, Permitted], Refusal | None]
    open: Callable[[Any, BrokerAccess], Awaitable[QueueBroker]]

    def check(self, config: Mapping[str, Any], permitted: Permitted) -> Refusal | None:
        """Check a destination's settings without using the network; refuse unknown names."""
        try:
            settings = self.read(config)
        except msgspec.ValidationError as error:
            return Refusal(Code.INVALID_FIELD, f"{self.name}: {error}.", "config")
        return self.refuse(settings, permitted)

    def read(self, config: Mapping[str, Any]) -> QueueSettings:
        """Return the settings in their own type; raise msgspec.ValidationError."""
        return msgspec.convert(dict(config), self.settings)


def read_url(url: str, ports: Mapping[str, int]) -> BrokerUrl:
    """Take a broker's URL apart; raise RejectedError for one that cannot be read."""
    found = parse_broker_url(url, ports)
    if isinstance(found, Malformed):
        raise RejectedError("invalid_url", found.reason)
    return found


def refuse_url(
    settings: UrlSettings, ports: Mapping[str, int], permitted: Permitted
) -> Refusal | None:
    """Check a broker's URL and its certificate authority."""
    refusal = check_broker_url(settings.url, ports, permitted.networks)
    return refusal or refuse_authority(settings.ca_pem)


def refuse_authority(ca_pem: str | None) -> Refusal | None:
    """Refuse what is not a certificate in PEM."""
    try:
        tls_context(ca_pem)
    except ValueError as error:
        return Refusal(Code.INVALID_FIELD, f"ca_pem: {error}.", "config")
    return None
