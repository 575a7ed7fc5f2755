"""Requests over HTTP, sent again while that is safe."""

import asyncio
import os
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import aiohttp
import msgspec

from postdate.client.configuration import ServerAddress
from postdate.client.errors import ProblemError, UnreachableError
from postdate.client.problems import BY_CODE, UnauthenticatedError

BASE: Final = "/api/v1"
PAUSE_SECONDS: Final = 0.2
MAX_PAUSE_SECONDS: Final = 5.0
MAX_RETRY_AFTER_SECONDS: Final = 30.0
"""A server that asks for more patience than this is better told to the caller."""

NOTHING_DONE: Final = frozenset({
    "rate_limited", "too_many_open", "overloaded", "unavailable", "idempotency_in_flight",
})  # fmt: skip
"""Refusals after which the same request may simply be sent again."""

UNKNOWN: Final = frozenset({"outcome_unknown", "internal"})
"""Refusals after which only what is repeatable is sent again."""

FRESHNESS: Final = "Postdate-Freshness"
"""Comes with the answer to a change, as a hexadecimal number; sent back with a read."""


@dataclass(slots=True, frozen=True, kw_only=True)
class Request:
    """What goes over the wire, the same at each try."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    key: str | None = None
    repeatable: bool = False
    wait_seconds: float = 0.0


class Transport:
    """Holds the connections of one client; they are made at the first request."""

    def __init__(self, server: ServerAddress, timeout_seconds: float, retries: int) -> None:
        self.url = server.url
        self._server = server
        self._headers = {"Authorization": f"Bearer {server.api_key}"}
        self._timeout_seconds = timeout_seconds
        self._retries = retries
        self._seen = ""
        self._session: aiohttp.ClientSession | None = None
        self._owner: tuple[int, asyncio.AbstractEventLoop] | None = None

    async def send(self, request: Request) -> bytes:
        """Send a request until it is answered or must not be sent again."""
        tried = 0
        while True:
            try:
                return await self._once(request)
            except (ProblemError, UnreachableError) as error:
                error.idempotency_key = request.key
                pause = _pause(error, request, tried)
                if pause is None or tried >= self._retries:
                    if isinstance(error, UnauthenticatedError | UnreachableError):
                        error.add_note(f"asked: {self._server}")
                    raise
            tried += 1
            await asyncio.sleep(pause)

    async def _once(self, request: Request) -> bytes:
        timeout = aiohttp.ClientTimeout(self._timeout_seconds + request.wait_seconds)
        headers = dict(request.headers)
        if request.body is not None:
            headers["Content-Type"] = "application/json"
        if request.key is not None:
            headers["Idempotency-Key"] = request.key
        if self._seen and request.method == "GET":
            headers[FRESHNESS] = self._seen
        try:
            async with self._connected().request(
                request.method,
                f"{self.url}{BASE}{request.path}",
                data=request.body,
                params=dict(request.query),
                headers=headers,
                timeout=timeout,
                allow_redirects=False,
            ) as response:
                data = await response.read()
                self._remember(response.headers.get(FRESHNESS, ""))
        except aiohttp.ClientConnectorError as error:
            message = f"{self.url} does not answer: {error}"
            raise UnreachableError(message, maybe_done=False) from error
        except (aiohttp.ClientError, TimeoutError) as error:
            said = str(error) or type(error).__name__
            maybe_done = request.method != "GET"
            message = f"{self.url} does not answer: {said}"
            raise UnreachableError(message, maybe_done=maybe_done) from error
        if response.ok and response.status < 300:  # noqa: PLR2004 - 3xx is no answer of ours
            return data
        raise _problem(response, data)

    def _remember(self, seen: str) -> None:
        """Keep how far the newest answer was: a read through this client is no older than it."""
        if (len(seen), seen) > (len(self._seen), self._seen):
            self._seen = seen

    def _connected(self) -> aiohttp.ClientSession:
        """Return the session; after a fork, or in another loop, a new one."""
        owner = (os.getpid(), asyncio.get_running_loop())
        if self._session is None or self._session.closed or self._owner != owner:
            self._session = aiohttp.ClientSession(headers=self._headers)
            self._owner = owner
        return self._session

    async def close(self) -> None:
        """Close the connections; a later request opens new ones."""
        if self._session is not None:
            await self._session.close()
            self._session = None


def _pause(error: Exception, request: Request, tried: int) -> float | None:
    """Return how long to wait before the next try; None when there must be none."""
    backoff = min(PAUSE_SECONDS * 2.0**tried, MAX_PAUSE_SECONDS) * random.uniform(0.5, 1.5)
    match error:
        case UnreachableError(maybe_done=True):
            return backoff if request.repeatable else None
        case ProblemError(code=code, retry_after_seconds=after):
            again = code in NOTHING_DONE or (code in UNKNOWN and request.repeatable)
            if not again or (after or 0.0) > MAX_RETRY_AFTER_SECONDS:
                return None
            return max(backoff, after or 0.0)
        case _:
            return backoff


def _problem(response: aiohttp.ClientResponse, data: bytes) -> ProblemError:
    answer = decode(data)
    found: Mapping[str, Any] = answer if isinstance(answer, dict) else {}
    made = BY_CODE.get(str(found.get("code")), ProblemError)(response.status, found)
    after = response.headers.get("Retry-After", "")
    made.retry_after_seconds = float(after) if after.isdigit() else None
    return made


def decode(data: bytes) -> Any:
    """Read JSON; None when it is none."""
    try:
        return msgspec.json.decode(data) if data else None
    except msgspec.DecodeError:
        return None
