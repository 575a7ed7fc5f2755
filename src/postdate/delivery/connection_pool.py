"""Connections to receivers: made through the guard, kept for a moment, used again."""

import asyncio
import ssl
import time
from typing import Final

from postdate.delivery.guard import Guard
from postdate.delivery.http_connection import HttpConnection
from postdate.delivery.name_cache import NameCache
from postdate.delivery.tls import receiver_context
from postdate.destination.spec.target import Target

IDLE_SECONDS: Final = 4.0
"""How long an idle connection is kept: below the five seconds after which most servers hang up,
because a request that crosses with their hanging up is in doubt."""

SWEEP_SECONDS: Final = 0.25
"""Minimum time between two sweeps of connections that were idle for too long."""

IDLE_CONNECTIONS: Final = 1024
"""Maximum number of idle connections; the one that was idle for longest is closed first."""

HttpOrigin = tuple[str, str, int]
"""Scheme, host and port."""


class ConnectionPool:
    """The connections of a process that are not in use.

    The worker bounds how many calls run at once. A limit here would let a silent receiver use up
    the connections of all others.
    """

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._names = NameCache(guard)
        self._idle: dict[HttpOrigin, list[HttpConnection]] = {}
        self._by_age: dict[HttpConnection, HttpOrigin] = {}
        self._sweep: asyncio.TimerHandle | None = None

    def take(self, target: Target) -> HttpConnection | None:
        """Return the idle connection that was used last, if one can be used at all."""
        waiting = self._idle.get((target.scheme, target.host, target.port))
        while waiting:
            connection = waiting.pop()
            del self._by_age[connection]
            fresh = time.monotonic() - connection.idle_since < IDLE_SECONDS
            if fresh and connection.is_quiet():
                return connection
            connection.abort()
        return None

    def give_back(self, target: Target, connection: HttpConnection) -> None:
        """Keep a connection whose exchange is over; close one that has anything left to do."""
        if not connection.is_reusable():
            connection.abort()
            return
        connection.idle_since = time.monotonic()
        origin = (target.scheme, target.host, target.port)
        self._idle.setdefault(origin, []).append(connection)
        self._by_age[connection] = origin
        if len(self._by_age) > IDLE_CONNECTIONS:
            self._drop(next(iter(self._by_age)))
        if self._sweep is None:
            self._sweep_after(IDLE_SECONDS)

    async def connect(self, tenant_id: int, target: Target) -> HttpConnection:
        """Open a connection to a checked address; the certificate must match the host's name."""
        secure = target.scheme == "https"
        tls = await asyncio.to_thread(receiver_context) if secure else None
        if target.address is None:
            addresses = await self._names.resolve(tenant_id, target.host, target.port)
        else:
            addresses = [target.host]
        return await self._open(addresses, target, tls)

    async def _open(
        self, addresses: list[str], target: Target, tls: ssl.SSLContext | None
    ) -> HttpConnection:
        opened = await self._guard.open(addresses, target.port)
        connection = HttpConnection(opened)
        try:
            await asyncio.get_running_loop().create_connection(
                lambda: connection,
                sock=opened,
                ssl=tls,
                server_hostname=None if tls is None else target.host,
            )
        except BaseException:
            opened.close()
            raise
        return connection

    def forget_names(self) -> None:
        """Resolve every name again for the next connection."""
        self._names.clear()

    def close(self) -> None:
        """Close every idle connection."""
        if self._sweep is not None:
            self._sweep.cancel()
        for connection in list(self._by_age):
            self._drop(connection)
        self._names.close()

    def _sweep_after(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        self._sweep = loop.call_later(max(seconds, SWEEP_SECONDS), self._sweep_idle)

    def _sweep_idle(self) -> None:
        self._sweep = None
        now = time.monotonic()
        for connection in list(self._by_age):
            age = now - connection.idle_since
            if age < IDLE_SECONDS and connection.lost is None:
                self._sweep_after(IDLE_SECONDS - age)
                return
            self._drop(connection)

    def _drop(self, connection: HttpConnection) -> None:
        origin = self._by_age.pop(connection)
        self._idle[origin].remove(connection)
        if not self._idle[origin]:
            del self._idle[origin]
        connection.abort()
