"""One HTTP exchange under one deadline: the answer, or whether the request can have arrived."""

import asyncio
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Final

import msgspec

from postdate.delivery.guard import (
    PASSAGE,
    Guard,
    LookupBusyError,
    Passage,
    TargetRefusedError,
    without_peers,
)
from postdate.destination.spec.target import Target

if TYPE_CHECKING:
    from postdate.delivery.http_connection import HttpConnection

ANSWER_BYTES: Final = 64 * 1024
"""Most that is read of an answer's body; then the connection is closed."""

ERROR_CHARACTERS: Final = 500


class ReceiverAnswer(msgspec.Struct, frozen=True):
    """Status and headers arrived. `broken` says why the body did not, if it did not."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    broken: str | None = None


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


Result = ReceiverAnswer | NotSent | InDoubt


class Arrived:
    """What has come back so far."""

    __slots__ = ("body", "headers", "status")

    def __init__(self) -> None:
        self.status = 0
        self.headers: Mapping[str, str] = {}
        self.body = b""

    def answer(self, broken: str | None) -> ReceiverAnswer:
        """Return the final answer."""
        return ReceiverAnswer(self.status, self.headers, self.body[:ANSWER_BYTES], broken)


class HttpExchange:
    """Posts through the guard, with one pool of connections for a process."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._wire: HttpConnection | None = None

    async def get(self, target: Target, *, timeout_seconds: float) -> Result:
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
    ) -> Result:
        """Send one request; connecting, sending and reading share the deadline."""
        passage = Passage(tenant_id)
        outer = PASSAGE.set(passage)
        arrived = Arrived()
        try:
            async with asyncio.timeout(timeout_seconds):
                await self._run(passage, target, headers, body, arrived)
            return arrived.answer(None)
        except TimeoutError:
            return _timed_out(passage, arrived, timeout_seconds)
        except TargetRefusedError as error:
            return NotSent("target_not_allowed", str(error), final=True, ours=True)
        except LookupBusyError as error:
            return NotSent("lookup_busy", str(error), ours=True)
        except Exception as error:
            from postdate.delivery.http_connection import ERRORS

            if isinstance(error, ERRORS):
                return _broken(passage, arrived, error)
            raise
        finally:
            PASSAGE.reset(outer)

    async def _run(
        self,
        passage: Passage,
        target: Target,
        headers: Mapping[str, str],
        body: bytes | None,
        arrived: Arrived,
    ) -> None:
        """Run the exchange, storing what has arrived so far for the case of a deadline."""
        if target.address is not None:
            self._guard.judge(target.host)
        wire = self._wire or await self._open()
        connection = await wire.connect(target)
        try:
            self._guard.judge_peer(connection.transport)
            passage.sent = True
            wire.send(connection, target, headers, body)
            message, content = await wire.receive(connection)
            arrived.status, arrived.headers = message.code, message.headers
            while len(arrived.body) < ANSWER_BYTES:
                chunk = await content.readany()
                if not chunk:
                    connection.release()
                    return
                arrived.body += chunk
        finally:
            # A released connection is no longer ours, and this does nothing. Any other is dropped
            # at once: closing politely would wait for a receiver that reads nothing.
            if connection.transport is not None:
                connection.transport.abort()
            connection.close()

    async def _open(self) -> "HttpConnection":
        """Create the pool on first use."""
        await load()
        from postdate.delivery.http_connection import HttpConnection

        self._wire = self._wire or HttpConnection(self._guard)
        return self._wire

    async def close(self) -> None:
        """Close every connection."""
        if self._wire is not None:
            await self._wire.close()
        self._guard.close()


async def load() -> None:
    """Import the HTTP library off the event loop, because that is slow."""
    await asyncio.to_thread(import_module, "postdate.delivery.http_connection")


def _timed_out(passage: Passage, arrived: Arrived, seconds: float) -> Result:
    if arrived.status:
        return arrived.answer(f"it took longer than {seconds:g} s")
    if passage.sent:
        return InDoubt("timeout", f"no answer within {seconds:g} s")
    return NotSent("connect_timeout", f"no connection within {seconds:g} s")


def _broken(passage: Passage, arrived: Arrived, error: Exception) -> Result:
    text = without_peers(str(error) or type(error).__name__)[:ERROR_CHARACTERS]
    if arrived.status:
        return arrived.answer(text)
    if passage.sent:
        return InDoubt("no_answer", text)
    from postdate.delivery.http_connection import connect_code

    return NotSent(connect_code(error), text)
