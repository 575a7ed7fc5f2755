"""The only way out: every outgoing connection is resolved and opened through this guard.

An address is checked three times, because each step alone could be deceived: when a name is
resolved (all its addresses), when a socket is created for one of them, and when the connection is
established (its real peer). A name is resolved once, and only a checked address is connected to.
"""

import asyncio
import re
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import ip_address
from typing import Any, Final

from aiohappyeyeballs import AddrInfoType, start_connection

from postdate.core.log import Log
from postdate.delivery.threads import TenantThreads, ThreadsBusyError
from postdate.destination.spec.target import FOREIGN_PORTS, Networks, refuse_address

log = Log()

LOOKUPS: Final = 64
"""Most names being resolved at once: the system's resolver holds a thread for each."""

LOOKUPS_TENANT: Final = 8
"""Most of them for one tenant, so that names which never answer delay no other tenant."""

STREAM_BYTES: Final = 64 * 1024
"""How much of a broker's connection is buffered before reading pauses."""

NEXT_ADDRESS_SECONDS: Final = 0.25
"""How long one address may take to answer before the next one is tried beside it."""

NOT_PUBLIC: Final = "its address is not public, and no allowed network contains it"
"""Why an address is refused, in words that do not name it."""

ADDRESSES: Final = 16
REMEMBERED: Final = 4096

_PEER: Final = re.compile(r"\('[0-9A-Fa-f.:]{2,45}', [0-9]{1,5}[0-9, ]{0,30}\)")
"""An address and a port, as errors of sockets name them."""

Lookup = Callable[[int, str, int], Awaitable[list[str]]]
"""Return the addresses of a name and port, on behalf of a tenant; raise LookupBusyError."""

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class TargetRefusedError(Exception):
    """A name, socket or peer turned out to be an address that calls may not reach."""


class LookupBusyError(Exception):
    """The tenant has too many names being resolved."""


def without_peers(text: str) -> str:
    """Return the text of an error without the addresses that a name resolved to."""
    return _PEER.sub("(its address)", text)


class Judge:
    """Decides which addresses calls may reach, and caches its decisions."""

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
        found = refuse_address(ip_address(address.partition("%")[0]), self._allowed)
        if found is not None:
            # Only for the operator: by asking for names, a tenant could map the network.
            log.warning("target.refused", address=address, reason=found)
        self._known[address] = None if found is None else NOT_PUBLIC
        return self._known[address]


def system_lookup(threads: TenantThreads) -> Lookup:
    """Resolve a name with the system's resolver, in separate threads."""

    async def lookup(tenant_id: int, host: str, port: int) -> list[str]:
        def ask() -> list[Any]:
            return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)

        try:
            infos = await threads.run(tenant_id, ask)
        except ThreadsBusyError as error:
            raise LookupBusyError(f"{LOOKUPS_TENANT} names are being resolved already") from error
        except UnicodeError as error:  # a name that no resolver can be asked for
            raise socket.gaierror(socket.EAI_NONAME, f"{host!r} is no name") from error
        return list(dict.fromkeys(str(info[4][0]) for info in infos))

    return lookup


class Guard:
    """Resolves names and opens connections; all outgoing connections use it."""

    def __init__(self, allowed: Networks, lookup: Lookup | None = None) -> None:
        self.judge = Judge(allowed)
        self._threads = TenantThreads("lookup", LOOKUPS, LOOKUPS_TENANT)
        self._lookup = lookup or system_lookup(self._threads)

    async def resolve(self, tenant_id: int, host: str, port: int) -> list[str]:
        """Return the addresses of a name; raise TargetRefusedError if one may not be reached."""
        found = await self._lookup(tenant_id, host, port)
        for address in found:
            self.judge(address)
        return found[:ADDRESSES]

    async def dial(
        self,
        tenant_id: int,
        host: str,
        port: int,
        tls: ssl.SSLContext | None = None,
        buffer_bytes: int = STREAM_BYTES,
    ) -> Streams:
        """Connect to a host for a tenant's broker; adapters have no other way to connect.

        A broker may name further hosts; those come through here too. Raise TargetRefusedError,
        LookupBusyError or OSError.
        """
        if port in FOREIGN_PORTS:
            raise TargetRefusedError(f"no broker listens on port {port}")
        opened = await self.open(await self.resolve(tenant_id, host, port), port)
        try:
            return await asyncio.open_connection(
                sock=opened,
                limit=buffer_bytes,
                ssl=tls,
                server_hostname=host if tls is not None else None,
            )
        except BaseException:
            opened.close()
            raise

    async def open(self, addresses: Sequence[str], port: int) -> socket.socket:
        """Connect to the first of the addresses that answers; the caller owns the socket.

        Raise TargetRefusedError or OSError. Not a byte is sent here.
        """
        if not addresses:
            raise socket.gaierror(socket.EAI_NONAME, "the name has no address")
        infos = [_address_info(address, port) for address in addresses]
        try:
            opened = await start_connection(
                infos, happy_eyeballs_delay=NEXT_ADDRESS_SECONDS, socket_factory=self.open_socket
            )
        except RuntimeError as error:  # uvloop raises it where others raise OSError
            raise OSError(str(error)) from error
        try:
            self.judge_peer(opened)
        except BaseException:
            opened.close()
            raise
        return opened

    def judge_peer(self, opened: socket.socket) -> None:
        """Raise unless the other end of a connection is one that calls may reach."""
        self.judge(str(opened.getpeername()[0]))

    def close(self) -> None:
        """Shut the threads down without waiting for running lookups."""
        self._threads.close()

    def open_socket(self, info: tuple[Any, ...]) -> socket.socket:
        """Create a socket for an address that calls may reach."""
        family, kind, proto, _, address = info
        self.judge(str(address[0]))
        made = socket.socket(family=family, type=kind, proto=proto)
        made.setblocking(False)
        return made


def _address_info(address: str, port: int) -> AddrInfoType:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    place = (address, port, 0, 0) if family == socket.AF_INET6 else (address, port)
    return family, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", place
