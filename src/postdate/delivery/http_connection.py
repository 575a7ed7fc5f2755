"""HTTP/1.1 on aiohttp's connections, without its session.

A session spends more on building request and response objects than a small POST costs otherwise.
The pool, the connecting, the TLS and the parser are aiohttp's own; the head is written here.
"""

import asyncio
import socket
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.client_reqrep import ClientRequest
from aiohttp.connector import Connection
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.http_parser import RawResponseMessage
from aiohttp.streams import StreamReader
from yarl import URL

from postdate.delivery.guard import PASSAGE, Guard
from postdate.destination.spec.target import Target

CACHE_SECONDS: Final = 30
"""How long a resolved and judged name is used for new connections."""

IDLE_SECONDS: Final = 4.0
"""How long an idle connection is kept: below the five seconds after which most servers hang up,
because a request that crosses with their hanging up is in doubt."""

BUFFER_BYTES: Final = 16 * 1024
"""How much of an answer is read ahead."""

HEAD_BYTES: Final = 8190
HEAD_LINES: Final = 128
SWITCHING: Final = 101
NO_TIMEOUT: Final = aiohttp.ClientTimeout(total=None, sock_connect=None)

ERRORS: Final = (aiohttp.ClientError, HttpProcessingError, OSError)
"""What a connection may fail with."""


class _Resolver(AbstractResolver):
    def __init__(self, guard: Guard) -> None:
        self._guard = guard

    async def resolve(
        self,
        host: str,
        port: int = 0,
        family: socket.AddressFamily = socket.AF_UNSPEC,  # noqa: ARG002 - both are asked for
    ) -> list[ResolveResult]:
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
            for address in await self._guard.resolve(PASSAGE.get().tenant_id, host, port)
        ]

    async def close(self) -> None:
        pass


def connector(guard: Guard) -> aiohttp.TCPConnector:
    """Open a pool of connections that pass the guard; it knows no proxies."""
    return aiohttp.TCPConnector(
        resolver=_Resolver(guard),
        socket_factory=guard.open_socket,
        ttl_dns_cache=CACHE_SECONDS,
        keepalive_timeout=IDLE_SECONDS,
        # The worker bounds how much runs at once; a limit here would let a silent receiver
        # use up the connections of all others.
        limit=0,
    )


def connect_code(error: Exception) -> str:
    """Return the code of an error that came before anything was sent."""
    match error:
        case aiohttp.ClientConnectorDNSError():
            return "dns_failed"
        case aiohttp.ClientSSLError():
            return "tls_failed"
        case _:
            return "connect_failed"


class HttpConnection:
    """Connects, sends and receives; the caller enforces the deadline."""

    def __init__(self, guard: Guard) -> None:
        self._connector = connector(guard)
        self._endpoint = lru_cache(maxsize=4096)(self._new_endpoint)

    def _new_endpoint(self, scheme: str, authority: str) -> ClientRequest:
        # Only tells the pool where to connect to. Parsed and written by us: it must not be
        # interpreted once more.
        url = URL(f"{scheme}://{authority}/", encoded=True)
        return ClientRequest("POST", url, loop=asyncio.get_running_loop())

    async def connect(self, target: Target) -> Connection:
        """Take a connection from the pool, or make one."""
        endpoint = self._endpoint(target.scheme, target.authority)
        return await self._connector.connect(endpoint, traces=[], timeout=NO_TIMEOUT)

    def send(
        self,
        connection: Connection,
        target: Target,
        headers: Mapping[str, str],
        body: bytes | None,
    ) -> None:
        """Write a whole request to the socket; the kernel sends the rest when it can.

        Without a body it is a GET, with one a POST.
        """
        protocol, transport = connection.protocol, connection.transport
        if protocol is None or transport is None:
            raise aiohttp.ClientConnectionError("the connection was lost before sending")
        protocol.set_response_params(
            read_until_eof=True,
            auto_decompress=False,
            read_bufsize=BUFFER_BYTES,
            max_line_size=HEAD_BYTES,
            max_field_size=HEAD_BYTES,
            max_headers=HEAD_LINES,
        )
        if body is None:
            transport.write(head(target, headers, None))
        else:
            transport.write(head(target, headers, len(body)) + body)

    async def receive(self, connection: Connection) -> tuple[RawResponseMessage, StreamReader]:
        """Wait for the head of the answer; the content follows by itself."""
        protocol: Any = connection.protocol
        while True:
            message, content = await protocol.read()
            if message.code >= 200 or message.code == SWITCHING:  # noqa: PLR2004 - interim below
                return message, content

    async def close(self) -> None:
        """Close every connection."""
        await self._connector.close()


def head(target: Target, headers: Mapping[str, str], length: int | None) -> bytes:
    """Build a request's first line and headers; raise for a value with a line break."""
    method = "GET" if length is None else "POST"
    lines = [f"{method} {target.path} HTTP/1.1", f"host: {target.authority}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    text = "".join(lines)
    if not (text.isascii() and text.isprintable()):
        raise ValueError("a header has characters that no header may have")
    if length is not None:
        lines.append(f"content-length: {length}")
    return "\r\n".join([*lines, "", ""]).encode("ascii")
