"""Brokers: what an adapter does for one kind of queue, and every way in which it can fail."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, Final, Protocol, TypeVar

import msgspec

from postdate.delivery.tls import tls_context
from postdate.model.destination.broker_url import BrokerUrl, check_broker_url, parse_broker_url
from postdate.model.destination.target import Malformed, Networks
from postdate.model.error import Code, Refusal

T = TypeVar("T")

CONNECT_SECONDS: Final = 3
"""How long a connection of a client library may take to open."""

Text = Annotated[str, msgspec.Meta(max_length=2048)]


class Message(msgspec.Struct, frozen=True):
    """What is published. `id` is that of the job: the same over all attempts.

    Messages with the same `key` must stay in order where a broker divides what it keeps.
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
    """The message has certainly not reached the broker; it may be tried again."""


class RejectedError(Exception):
    """The broker refused the message for good: too large, or a subject that cannot be."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(reason)
        self.code = code


class DeliveryInDoubtError(Exception):
    """The message was sent and no confirmation came: it may be there or not."""


class QueueBroker(Protocol):
    """One connection to a broker. `publish` returns only after the broker has confirmed.

    A connection that is `closed` stays so; the next delivery opens another.
    """

    @property
    def closed(self) -> bool:
        """Return whether nothing can be published by it any more."""

    async def publish(self, message: Message, timeout_seconds: float) -> None:
        """Publish and wait for the confirmation; raise one of the three errors above."""

    async def close(self) -> None:
        """Let go of the connection."""


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


class Access(msgspec.Struct, frozen=True):
    """All that an adapter may use to leave the building.

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

    `open` raises NotSentError or RejectedError, or what `Access` raises.
    """

    name: str
    settings: type[QueueSettings]
    refuse: Callable[[Any, Permitted], Refusal | None]
    open: Callable[[Any, Access], Awaitable[QueueBroker]]

    def check(self, config: Mapping[str, Any], permitted: Permitted) -> Refusal | None:
        """Judge a destination's settings without asking the network; unknown names are refused."""
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
    """Judge a broker's URL, and the authority that its certificate is checked with."""
    refusal = check_broker_url(settings.url, ports, permitted.networks)
    return refusal or refuse_authority(settings.ca_pem)


def refuse_authority(ca_pem: str | None) -> Refusal | None:
    """Refuse what is not a certificate in PEM."""
    try:
        tls_context(ca_pem)
    except ValueError as error:
        return Refusal(Code.INVALID_FIELD, f"ca_pem: {error}.", "config")
    return None
