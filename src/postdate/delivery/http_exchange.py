"""One HTTP exchange under one deadline: the answer, or whether the request can have arrived."""

import asyncio
import socket
import ssl
import time
from collections.abc import Mapping
from typing import Final

import msgspec

from postdate.delivery.connection_pool import ConnectionPool
from postdate.delivery.guard import Guard, LookupBusyError, TargetRefusedError, without_peers
from postdate.delivery.http_connection import TIMED_OUT, HttpConnection
from postdate.delivery.tls import receiver_context
from postdate.destination.spec.target import Target

ERROR_CHARACTERS: Final = 500
LOST_BEFORE: Final = "the connection was lost before sending"


class ReceiverAnswer(msgspec.Struct, frozen=True):
    """Status and headers arrived. `broken` says why the body did not, if it did not."""

    status: int
    headers: Mapping[bytes, bytes]
    body: bytes
    broken: str | None = None

    def header(self, name: bytes) -> str:
        """Return the value of a header, named in lower case, or nothing."""
        return self.headers.get(name, b"").decode("latin-1")


class NotSent(msgspec.Struct, frozen=True):
    """Certainly nothing arrived: there was no connection."""

    code: str
    error: str
    final: bool = False
    ours: bool = False


class InDoubt(msgspec.Struct, frozen=True):
    """It was sent, wholly or in part, and no answer came."""

    code: str
    error: str


ExchangeResult = ReceiverAnswer | NotSent | InDoubt


class HttpExchange:
    """Posts through the guard, with one pool of connections for a process."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._pool = ConnectionPool(guard)

    async def get(self, target: Target, *, timeout_seconds: float) -> ExchangeResult:
        """Send a GET request on behalf of the operator."""
        headers = {"accept": "application/json"}
        return await self.post(0, target, headers, None, timeout_seconds=timeout_seconds)

    async def post(
        self,
        tenant_id: int,
        target: Target,
        headers: Mapping[str, str],
        body: bytes | None,
        *,
        timeout_seconds: float,
    ) -> ExchangeResult:
        """Send one request; connecting, sending and reading share the deadline.

        Without a body it is a GET, with one a POST.
        """
        request = request_bytes(target, headers, body)
        connection, left = self._pool.take(target), timeout_seconds
        if connection is None:
            began = time.monotonic()
            made = await self._connect(tenant_id, target, timeout_seconds)
            if isinstance(made, NotSent):
                return made
            connection, left = made, timeout_seconds - (time.monotonic() - began)
        # From here on the receiver may have got it: that separates NotSent from InDoubt.
        waiter = connection.send(request)
        deadline = asyncio.get_running_loop().call_later(left, connection.time_out)
        try:
            broken = await waiter
        finally:
            deadline.cancel()
            self._pool.give_back(target, connection)
        return _result(connection, broken, timeout_seconds)

    async def _connect(
        self, tenant_id: int, target: Target, timeout_seconds: float
    ) -> HttpConnection | NotSent:
        try:
            async with asyncio.timeout(timeout_seconds):
                connection = await self._pool.connect(tenant_id, target)
        except TimeoutError:
            return NotSent("connect_timeout", f"no connection within {timeout_seconds:g} s")
        except TargetRefusedError as error:
            return NotSent("target_not_allowed", str(error), final=True, ours=True)
        except LookupBusyError as error:
            return NotSent("lookup_busy", str(error), ours=True)
        except OSError as error:
            return NotSent(_connect_code(error), _text(str(error) or type(error).__name__))
        if connection.lost is not None:
            connection.abort()
            return NotSent("connect_failed", LOST_BEFORE)
        return connection

    async def close(self) -> None:
        """Close every connection."""
        self._pool.close()
        self._guard.close()


async def load() -> None:
    """Read the certificates of the system off the event loop, because that is slow."""
    await asyncio.to_thread(receiver_context)


def request_bytes(target: Target, headers: Mapping[str, str], body: bytes | None) -> bytes:
    """Build a whole request; raise for a header with characters that no header may have."""
    lines = [f"{name}: {value}" for name, value in headers.items()]
    text = "".join(lines)
    if not (text.isascii() and text.isprintable()):
        raise ValueError("a header has characters that no header may have")
    fields = "\r\n".join(lines)
    first = f"{target.path} HTTP/1.1\r\nhost: {target.authority}\r\n{fields}\r\n"
    if body is None:
        return f"GET {first}\r\n".encode("ascii")
    return f"POST {first}content-length: {len(body)}\r\n\r\n".encode("ascii") + body


def _result(
    connection: HttpConnection, broken: str | None, timeout_seconds: float
) -> ExchangeResult:
    answer = connection.answer
    if broken is TIMED_OUT:
        if not answer.status:
            return InDoubt("timeout", f"no answer within {timeout_seconds:g} s")
        broken = f"it took longer than {timeout_seconds:g} s"
    elif broken is not None:
        broken = _text(broken)
        if not answer.status:
            return InDoubt("no_answer", broken)
    return ReceiverAnswer(answer.status, answer.headers, answer.body, broken)


def _connect_code(error: OSError) -> str:
    """Return the code of an error that came before anything was sent."""
    match error:
        case socket.gaierror():
            return "dns_failed"
        case ssl.SSLError():
            return "tls_failed"
        case _:
            return "connect_failed"


def _text(error: str) -> str:
    return without_peers(error)[:ERROR_CHARACTERS]
