"""The queue handler: find the destination, keep one connection to its broker, publish, judge."""

import asyncio
import importlib
import importlib.util
import random
import time
from collections.abc import Hashable, Iterator, Mapping
from typing import Any, Final

import structlog

from postdate.delivery.breaker import Breakers, Health
from postdate.delivery.broker import (
    Broker,
    InDoubtError,
    Judge,
    Kind,
    Message,
    NotSentError,
    RejectedError,
)
from postdate.delivery.guard import TargetRefusedError
from postdate.delivery.webhook import body_of, headers_of
from postdate.model.destination import (
    Destination,
    DestinationType,
    Missing,
    Resolve,
    Unavailable,
)
from postdate.model.errors import Refusal
from postdate.model.outcome import Completed, Delivery, Failed, Outcome, Throttled, Unknown

log = structlog.get_logger()

LOOK_AGAIN_SECONDS: Final = 2.0
IDLE_SECONDS: Final = 300.0
"""How long a connection that nobody uses is kept."""

_LIBRARIES: Final = {
    "nats": "nats",
    "rabbitmq": "aio_pika",
    "redis": "redis",
    "kafka": "confluent_kafka",
}

_FORESEEN: Final = (
    RejectedError,
    TargetRefusedError,
    NotSentError,
    InDoubtError,
    TimeoutError,
)


class Installed(Mapping[str, Kind]):
    """The adapters whose libraries are installed: each is an extra, loaded when it is first used.

    The libraries take most of a second to load, and most servers need none of them.
    """

    def __init__(self) -> None:
        self._names = [
            name for name, library in _LIBRARIES.items() if importlib.util.find_spec(library)
        ]

    def __getitem__(self, name: str) -> Kind:
        if name not in self._names:
            raise KeyError(name)
        module = importlib.import_module(f"postdate.delivery.{name}")
        kind: Kind = getattr(module, name.upper())
        return kind

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class _Held:
    """A broker's connection, opened once however many deliveries ask for it."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.broker: Broker | None = None
        self.config: Mapping[str, Any] | None = None
        self.used_at = 0.0

    def fitting(self, found: Destination) -> Broker | None:
        """Give the connection if it is the one that the destination asks for now."""
        return self.broker if self.config == found.config else None


class Queue:
    """Delivers jobs whose destination is a named queue."""

    def __init__(
        self,
        resolve: Resolve,
        judge: Judge,
        kinds: Mapping[str, Kind] | None = None,
        breakers: Breakers | None = None,
    ) -> None:
        self._resolve = resolve
        self._judge = judge
        self.kinds = Installed() if kinds is None else kinds
        self.breakers = breakers or Breakers()
        self._held: dict[tuple[int, str], _Held] = {}

    async def deliver(self, delivery: Delivery) -> Outcome:
        """Run one attempt; the job is complete only when the broker has confirmed."""
        found = await self._find(delivery)
        if not isinstance(found, Destination):
            return found
        key: Hashable = (delivery.tenant_id, "queue", found.name)
        now = time.monotonic()
        if wait := self.breakers.admit(key, now):
            return Throttled(seconds=wait * random.uniform(1.0, 1.5), reason="breaker_open")
        health = Health.SILENT
        try:
            outcome = await self._publish(delivery, found)
            health = _health(outcome)
        finally:
            self.breakers.record(key, now, time.monotonic(), health)
        return outcome

    async def check(self, kind: str, config: Mapping[str, Any]) -> Refusal | None:
        """Judge a destination's settings by their shape."""
        found = await self._kind(kind)
        return found.check(config)

    async def try_out(self, kind: str, config: Mapping[str, Any]) -> str | None:
        """Connect once with new settings; give the reason when that fails."""
        found = await self._kind(kind)
        try:
            broker = await found.open(config, self._judge)
        except (NotSentError, RejectedError, TargetRefusedError) as error:
            return str(error)
        await broker.close()
        return None

    async def close(self) -> None:
        """Close every connection."""
        held, self._held = self._held, {}
        for one in held.values():
            await _close(one)

    async def close_idle(self, _: int = 1) -> int:
        """Close connections that nobody has used for a while."""
        before = time.monotonic() - IDLE_SECONDS
        for key, one in list(self._held.items()):
            if one.used_at < before and not one.lock.locked():
                del self._held[key]
                await _close(one)
        return 0

    async def _kind(self, name: str) -> Kind:
        """Give the adapter; loading it must not hold up what else is due."""
        return await asyncio.to_thread(self.kinds.__getitem__, name)

    async def _find(self, delivery: Delivery) -> Destination | Outcome:
        name = delivery.destination.get("name")
        match found := await self._resolve(delivery.tenant_id, name):
            case Missing():
                return _refused("destination_missing", f"there is no destination {name}")
            case Unavailable(reason):
                return Throttled(seconds=LOOK_AGAIN_SECONDS, reason=reason)
            case Destination(disabled=str(why)):
                return _refused("destination_disabled", f"{name} is disabled: {why}")
            case Destination(type=DestinationType.QUEUE):
                return found
            case Destination():
                return _refused("destination_mismatch", f"{name} is not a queue")

    async def _publish(self, delivery: Delivery, found: Destination) -> Outcome:
        subject = str(
            delivery.destination.get("subject") or (found.config or {}).get("subject", "")
        )
        if not subject:
            return _refused("subject_missing", "neither the job nor its destination has a subject")
        name = str(delivery.job_id)
        key = delivery.order_key or name
        message = Message(name, subject, body_of(delivery), headers_of(delivery), key)
        try:
            async with asyncio.timeout(delivery.timeout_seconds):
                broker = await self._open(found)
                await broker.publish(message, delivery.timeout_seconds)
        except _FORESEEN as error:
            return _judge(error)
        return Completed()

    async def _open(self, found: Destination) -> Broker:
        held = self._held.setdefault((found.tenant_id, found.name or ""), _Held())
        held.used_at = time.monotonic()
        if (broker := held.fitting(found)) is not None:
            return broker
        async with held.lock:
            if (broker := held.fitting(found)) is not None:
                return broker
            await _close(held)
            if found.kind is None or found.kind not in self.kinds:
                raise RejectedError("kind_missing", f"this node cannot speak {found.kind}")
            kind = await self._kind(found.kind)
            broker = await kind.open(found.config or {}, self._judge)
            held.broker, held.config = broker, found.config
            return broker


def _judge(error: Exception) -> Outcome:
    match error:
        case RejectedError(code=code):
            return Failed(code=code, error=str(error), retryable=code == "credentials_refused")
        case TargetRefusedError():
            return _refused("target_refused", str(error))
        case NotSentError():
            return Failed(code="broker_unavailable", error=str(error))
        case _:
            return Unknown(code="unconfirmed", error=str(error) or "no confirmation came in time")


def _health(outcome: Outcome) -> Health:
    match outcome:
        case Completed():
            return Health.UP
        case Failed(retryable=True) | Unknown():
            return Health.DOWN
        case _:
            return Health.SILENT


async def _close(held: _Held) -> None:
    broker, held.broker = held.broker, None
    if broker is not None:
        try:
            await broker.close()
        except Exception as error:  # noqa: BLE001 - a library's farewell must not fail a delivery
            log.debug("broker.close_failed", error=str(error))


def _refused(code: str, error: str) -> Failed:
    return Failed(code=code, error=error, retryable=False)
