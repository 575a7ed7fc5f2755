"""Connections to brokers: one for each destination, opened by the guard, kept while in use."""

import asyncio
import importlib
import importlib.util
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final

from postdate.core.log import Log
from postdate.delivery.broker import (
    BrokerAccess,
    BrokerKind,
    NotSentError,
    Permitted,
    QueueBroker,
    RejectedError,
)
from postdate.delivery.guard import Guard, LookupBusyError, TargetRefusedError, without_peers
from postdate.delivery.threads import TenantThreads, ThreadsBusyError
from postdate.destination.spec.destination import Destination
from postdate.words.error import Refusal

log = Log()

IDLE_SECONDS: Final = 300.0
"""How long an unused connection is kept."""

OPEN_SECONDS: Final = 10.0
"""How long opening may take altogether, whatever a broker answers or names."""

CLOSE_SECONDS: Final = 2.0
THREADS: Final = 32
"""Most blocking calls of client libraries at once; only Kafka's makes any."""

THREADS_TENANT: Final = 4

_LIBRARIES: Final = {
    "nats": "nats",
    "rabbitmq": "aio_pika",
    "redis": "redis",
    "kafka": "confluent_kafka",
}

OPEN_ERRORS: Final = (
    NotSentError,
    RejectedError,
    TargetRefusedError,
    LookupBusyError,
    ThreadsBusyError,
)
"""Every way in which opening fails."""


class Installed(Mapping[str, BrokerKind]):
    """The adapters whose libraries are installed: each is an extra, loaded when it is first used.

    The libraries take most of a second to load, and most servers need none of them.
    """

    def __init__(self) -> None:
        self._names = [
            name for name, library in _LIBRARIES.items() if importlib.util.find_spec(library)
        ]

    def __getitem__(self, name: str) -> BrokerKind:
        if name not in self._names:
            raise KeyError(name)
        module = importlib.import_module(f"postdate.delivery.{name}")
        kind: BrokerKind = getattr(module, name.upper())
        return kind

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class _Held:
    """A broker's connection, opened once for all deliveries that need it."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.broker: QueueBroker | None = None
        self.config: Mapping[str, Any] | None = None
        self.used_at = 0.0
        self.confirmed_at = 0.0

    def current(self, found: Destination) -> QueueBroker | None:
        """Return the connection if it is the one that the destination asks for now."""
        broker = self.broker
        if broker is None or broker.closed or self.config != found.config:
            return None
        return broker


class BrokerConnections:
    """Opens connections to tenants' brokers, and keeps one for each destination."""

    def __init__(
        self, guard: Guard, permitted: Permitted, kinds: Mapping[str, BrokerKind] | None = None
    ) -> None:
        self._guard = guard
        self._permitted = permitted
        self.kinds = Installed() if kinds is None else kinds
        self._held: dict[tuple[int, str], _Held] = {}
        self._loaded: dict[str, BrokerKind] = {}
        self._loading = ThreadPoolExecutor(1, thread_name_prefix="load")
        self._threads = TenantThreads("broker", THREADS, THREADS_TENANT)

    async def check(self, kind: str, config: Mapping[str, Any]) -> Refusal | None:
        """Check a destination's settings without using the network."""
        found = await self._kind(kind)
        return found.check(config, self._permitted)

    async def try_out(self, tenant_id: int, kind: str, config: Mapping[str, Any]) -> str | None:
        """Connect once with new settings; return the reason if that fails."""
        try:
            broker = await self._connect(tenant_id, kind, config)
        except OPEN_ERRORS as error:
            return without_peers(str(error))
        await _close(broker)
        return None

    async def open(self, found: Destination) -> QueueBroker:
        """Return the destination's connection, opening it if need be; raise one of OPEN_ERRORS."""
        held = self._held.setdefault(_key(found), _Held())
        held.used_at = time.monotonic()
        if (broker := held.current(found)) is not None:
            return broker
        async with held.lock:
            if (broker := held.current(found)) is not None:
                return broker
            outdated, held.broker = held.broker, None
            await _close(outdated)
            if found.kind is None or found.kind not in self.kinds:
                raise RejectedError("kind_missing", f"this node cannot speak {found.kind}")
            broker = await self._connect(found.tenant_id, found.kind, found.config or {})
            held.broker, held.config = broker, found.config
            return broker

    def confirm(self, found: Destination) -> None:
        """Record that the destination's broker has confirmed a message."""
        if (held := self._held.get(_key(found))) is not None:
            held.confirmed_at = time.monotonic()

    async def give_up(self, found: Destination, since: float) -> None:
        """Drop a connection that has confirmed nothing since an instant.

        It is broken even if it reports to be open: the next delivery opens another.
        """
        held = self._held.get(_key(found))
        if held is not None and held.confirmed_at < since and not held.lock.locked():
            silent, held.broker = held.broker, None
            await _close(silent)

    async def close_idle(self, _: int = 1) -> int:
        """Close connections that were unused for a while."""
        before = time.monotonic() - IDLE_SECONDS
        for key, one in list(self._held.items()):
            if one.used_at < before and not one.lock.locked():
                del self._held[key]
                await _close(one.broker)
        return 0

    async def close(self) -> None:
        """Close every connection."""
        held, self._held = self._held, {}
        await asyncio.gather(*(_close(one.broker) for one in held.values()))
        self._threads.close()
        self._loading.shutdown(wait=False, cancel_futures=True)

    async def _kind(self, name: str) -> BrokerKind:
        """Return the adapter; load it in a thread, so that nothing else waits."""
        kind = self._loaded.get(name)
        if kind is None:
            loop = asyncio.get_running_loop()
            kind = await loop.run_in_executor(self._loading, self.kinds.__getitem__, name)
            self._loaded[name] = kind
        return kind

    async def _connect(self, tenant_id: int, name: str, config: Mapping[str, Any]) -> QueueBroker:
        """Connect through the guard; check stored settings against today's rules."""
        kind = await self._kind(name)
        if refusal := kind.check(config, self._permitted):
            raise TargetRefusedError(refusal.detail)
        access = BrokerAccess(
            partial(self._guard.dial, tenant_id),
            partial(self._threads.run, tenant_id),
            self._threads.finish,
        )
        try:
            async with asyncio.timeout(OPEN_SECONDS):
                return await kind.open(kind.read(config), access)
        except OPEN_ERRORS:
            raise
        except Exception as error:
            # A library that talks to a hostile broker may raise anything, and wrap our own errors.
            raise _own_error(error) or NotSentError(str(error) or type(error).__name__) from error


def _key(found: Destination) -> tuple[int, str]:
    return (found.tenant_id, found.name or "")


async def _close(broker: QueueBroker | None) -> None:
    if broker is None:
        return
    try:
        async with asyncio.timeout(CLOSE_SECONDS):
            await broker.close()
    except Exception as error:  # noqa: BLE001 - an error while closing must not fail a delivery
        log.debug("broker.close_failed", error=str(error))


def _own_error(error: BaseException | None) -> Exception | None:
    """Find an error of ours below the errors that a library wrapped around it."""
    while error is not None:
        if isinstance(error, OPEN_ERRORS):
            return error
        error = error.__cause__ or error.__context__
    return None
