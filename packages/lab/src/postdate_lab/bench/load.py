"""An HTTP client that costs little, so that a load measures the server and not itself."""

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple, cast
from urllib.parse import urlsplit

import msgspec

CONNECTIONS: Final = 64
ANSWER_SECONDS: Final = 30.0

_END: Final = b"\r\n\r\n"
_LENGTH: Final = b"content-length:"


class LoadRequest(NamedTuple):
    """A request, ready to be sent but for its host."""

    method: str
    path: str
    body: bytes = b""
    headers: Mapping[str, str] = {}


class LoadReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a load saw; times are in milliseconds, from when each request was meant to be sent."""

    requests: int
    seconds: float
    per_second: float
    p50_ms: float
    p95_ms: float
    p99_ms: float
    statuses: dict[int, int]


class LoadClient(asyncio.Protocol):
    """One connection that is kept open and has at most one request under way."""

    def __init__(self, host: str, key: str) -> None:
        self._fixed = f"host: {host}\r\nauthorization: Bearer {key}\r\n"
        self._buffer = bytearray()
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the connection; uvloop's is one by its methods, not by its class."""
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail what is under way."""
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(exc or ConnectionResetError("the server hung up"))

    def data_received(self, data: bytes) -> None:
        """Collect an answer; every answer to us has its length."""
        self._buffer += data
        end = self._buffer.find(_END)
        if end < 0 or self._answer is None:
            return
        head = bytes(self._buffer[:end]).lower()
        at = head.find(_LENGTH)
        length = int(head[at + len(_LENGTH) :].split(b"\r\n", 1)[0]) if at >= 0 else 0
        start = end + len(_END)
        if len(self._buffer) < start + length:
            return
        body = bytes(self._buffer[start : start + length])
        self._buffer.clear()
        if not self._answer.done():
            self._answer.set_result((int(head[9:12]), body))

    async def ask(self, request: LoadRequest) -> tuple[int, bytes]:
        """Send a request and wait for its answer."""
        if self._transport is None:
            raise ConnectionError("not connected")
        self._answer = asyncio.get_running_loop().create_future()
        own = "".join(f"{name}: {value}\r\n" for name, value in request.headers.items())
        if request.body:
            own += f"content-type: application/json\r\ncontent-length: {len(request.body)}\r\n"
        head = f"{request.method} {request.path} HTTP/1.1\r\n{self._fixed}{own}\r\n"
        self._transport.write(head.encode() + request.body)
        async with asyncio.timeout(ANSWER_SECONDS):
            return await self._answer

    def close(self) -> None:
        """Hang up."""
        if self._transport is not None:
            self._transport.close()


async def connect(url: str, key: str) -> LoadClient:
    """Open a connection to a server."""
    parts = urlsplit(url)
    loop = asyncio.get_running_loop()
    _, client = await loop.create_connection(
        lambda: LoadClient(parts.netloc, key), parts.hostname or "127.0.0.1", parts.port or 80
    )
    return client


class Load:
    """Sends requests over many connections: as fast as they are answered, or at a rate."""

    def __init__(self, requests: Iterable[LoadRequest], per_second: float | None = None) -> None:
        self._requests: Iterator[tuple[int, LoadRequest]] = enumerate(requests)
        self._per_second = per_second
        self._started = 0.0
        self._milliseconds: list[float] = []
        self._statuses: Counter[int] = Counter()

    async def run(self, url: str, key: str, connections: int = CONNECTIONS) -> LoadReport:
        """Send everything and report what came back."""
        clients = [await connect(url, key) for _ in range(connections)]
        self._started = time.perf_counter()
        try:
            await asyncio.gather(*(self._work(client) for client in clients))
        finally:
            for client in clients:
                client.close()
        return self._report(time.perf_counter() - self._started)

    async def _work(self, client: LoadClient) -> None:
        for number, request in self._requests:
            meant = await self._round(number)
            status, _ = await client.ask(request)
            self._milliseconds.append((time.perf_counter() - meant) * 1000)
            self._statuses[status] += 1

    async def _round(self, number: int) -> float:
        """Wait for the turn of a request: a late start counts as lateness of the server."""
        if self._per_second is None:
            return time.perf_counter()
        meant = self._started + number / self._per_second
        if (wait := meant - time.perf_counter()) > 0:
            await asyncio.sleep(wait)
        return meant

    def _report(self, seconds: float) -> LoadReport:
        ordered = sorted(self._milliseconds) or [0.0]

        def percentile(share: float) -> float:
            return round(ordered[min(int(len(ordered) * share), len(ordered) - 1)], 2)

        return LoadReport(
            requests=len(self._milliseconds),
            seconds=round(seconds, 3),
            per_second=round(len(self._milliseconds) / seconds, 1),
            p50_ms=percentile(0.50),
            p95_ms=percentile(0.95),
            p99_ms=percentile(0.99),
            statuses=dict(self._statuses),
        )
