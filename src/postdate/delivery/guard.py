"""The one way out: every outgoing HTTP call resolves, connects and is sent through this guard.

An address is judged three times, because each step could be deceived alone: when a name is
resolved (all its addresses), when a socket is made for one of them, and when the connection stands
(the peer it really has). A name is resolved once; what was judged is what is connected to.
"""

import asyncio
import socket
from collections import Counter
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from ipaddress import ip_address
from typing import Any, Final

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from postdate.model.target import Networks, refuse_address

LOOKUPS: Final = 64
"""Most names being resolved at once: the system's resolver holds a thread for each."""

LOOKUPS_TENANT: Final = 8
"""Most of them for one tenant, so that names which never answer hold up nobody else."""

CACHE_SECONDS: Final = 30
"""How long a resolved and judged name is used for new connections."""

IDLE_SECONDS: Final = 4.0
"""How long an idle connection is kept: below the five seconds after which most servers hang up,
because a request that crosses with their hanging up is in doubt."""

ADDRESSES: Final = 16
REMEMBERED: Final = 4096

Lookup = Callable[[str, int], Awaitable[list[str]]]
"""Give the addresses of a name and port."""


class TargetRefusedError(Exception):
    """A name, socket or peer turned out to be an address that calls may not reach."""


class LookupBusyError(Exception):
    """The tenant has too many names being resolved."""


class Passage:
    """One call on its way out: whose it is, and whether any of it can have arrived."""

    __slots__ = ("sent", "tenant_id")

    def __init__(self, tenant_id: int) -> None:
        self.tenant_id = tenant_id
        self.sent = False


PASSAGE: Final[ContextVar[Passage]] = ContextVar("passage")


class Judge:
    """Says which addresses calls may reach, and remembers what it said."""

    def __init__(self, allowed: Networks) -> None:
        self._allowed = allowed
        self._known: dict[str, str | None] = {}

    def __call__(self, address: str) -> None:
        """Raise unless calls may reach this address."""
        try:
            why = self._known[address]
        except KeyError:
            why = self._look(address)
        if why is not None:
            raise TargetRefusedError(why)

    def _look(self, address: str) -> str | None:
        if len(self._known) >= REMEMBERED:
            self._known.clear()
        # A link-local address may carry its interface (fe80::1%eth0), which is not part of it.
        why = refuse_address(ip_address(address.partition("%")[0]), self._allowed)
        self._known[address] = why
        return why


class _Resolver(AbstractResolver):
    def __init__(self, judge: Judge, lookup: Lookup) -> None:
        self._judge = judge
        self._lookup = lookup
        self._busy: Counter[int] = Counter()

    async def resolve(
        self,
        host: str,
        port: int = 0,
        family: socket.AddressFamily = socket.AF_UNSPEC,  # noqa: ARG002 - both are asked for
    ) -> list[ResolveResult]:
        found = await self._look_up(host, port)
        for address in found:
            self._judge(address)
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
            for address in found[:ADDRESSES]
        ]

    async def _look_up(self, host: str, port: int) -> list[str]:
        tenant_id = PASSAGE.get().tenant_id
        if self._busy[tenant_id] >= LOOKUPS_TENANT:
            raise LookupBusyError(f"{LOOKUPS_TENANT} names are being resolved already")
        self._busy[tenant_id] += 1
        try:
            return await self._lookup(host, port)
        finally:
            self._busy[tenant_id] -= 1
            if not self._busy[tenant_id]:
                del self._busy[tenant_id]

    async def close(self) -> None:
        pass


def system_lookup(executor: ThreadPoolExecutor) -> Lookup:
    """Ask the system's resolver, in threads of our own: a slow name must not block other work."""

    async def lookup(host: str, port: int) -> list[str]:
        infos = await asyncio.get_running_loop().run_in_executor(
            executor, lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        )
        return list(dict.fromkeys(str(info[4][0]) for info in infos))

    return lookup


class Guard:
    """Makes sessions that cannot leave by any other way."""

    def __init__(self, allowed: Networks, lookup: Lookup | None = None) -> None:
        self.judge = Judge(allowed)
        self._executor = ThreadPoolExecutor(LOOKUPS, thread_name_prefix="lookup")
        self._lookup = lookup or system_lookup(self._executor)

    def connector(self) -> aiohttp.TCPConnector:
        """Open a pool of connections that lead nowhere else; it knows no proxies."""
        return aiohttp.TCPConnector(
            resolver=_Resolver(self.judge, self._lookup),
            socket_factory=self._socket,
            ttl_dns_cache=CACHE_SECONDS,
            keepalive_timeout=IDLE_SECONDS,
            # The worker bounds how much runs at once; a limit here would let a silent receiver
            # use up the connections of all others.
            limit=0,
        )

    async def judge_host(self, host: str, port: int) -> None:
        """Raise unless every address of a host is one that calls may reach: for brokers.

        Their libraries resolve the name again, so this holds for honest resolvers only; a broker
        is registered by an administrator of the tenant.
        """
        try:
            addresses = await self._lookup(host, port)
        except OSError as error:
            raise TargetRefusedError(f"{host} has no address: {error}") from error
        for address in addresses:
            self.judge(address)

    def judge_peer(self, transport: asyncio.BaseTransport | None) -> None:
        """Raise unless the other end of a connection is one that calls may reach."""
        peer = transport and transport.get_extra_info("peername")
        if not peer:
            raise aiohttp.ClientConnectionError("the connection was lost before sending")
        self.judge(peer[0])

    def close(self) -> None:
        """Let go of the threads; a lookup under way is not waited for."""
        self._executor.shutdown(wait=False, cancel_futures=True)

    def _socket(self, info: tuple[Any, ...]) -> socket.socket:
        family, kind, proto, _, address = info
        self.judge(str(address[0]))
        made = socket.socket(family=family, type=kind, proto=proto)
        made.setblocking(False)
        return made
