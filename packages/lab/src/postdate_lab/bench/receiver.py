"""A receiver of webhooks in a process of its own: it answers 204 and counts, as cheaply as it can.

Run as a module, it prints its port and serves until its standard input closes. An argument says
after how many seconds it answers.
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, cast

import psutil
import uvloop

_END: Final = b"\r\n\r\n"
_LENGTH: Final = b"content-length: "
_ANSWER: Final = b"HTTP/1.1 204 No Content\r\n\r\n"
_COUNT: Final = b"GET /count"


class Counting(asyncio.Protocol):
    """One connection; requests are told apart by their length alone."""

    total = 0
    answer_seconds = 0.0

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._data = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember where to answer; uvloop's transports are none of asyncio's classes."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Answer every whole request."""
        self._data += data
        while (end := self._data.find(_END)) >= 0:
            head = self._data[:end].lower()
            at = head.find(_LENGTH)
            length = int(head[at + len(_LENGTH) :].split(b"\r\n", 1)[0]) if at >= 0 else 0
            whole = end + len(_END) + length
            if len(self._data) < whole:
                return
            self._answer(self._data[: len(_COUNT)] == _COUNT)
            self._data = self._data[whole:]

    def _answer(self, asked: bool) -> None:  # noqa: FBT001 - one call, one meaning
        if self._transport is None:
            return
        if asked:
            body = str(Counting.total).encode()
            head = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body)
            self._transport.write(head + body)
        else:
            Counting.total += 1
            if self.answer_seconds:
                asyncio.get_running_loop().call_later(
                    self.answer_seconds, self._transport.write, _ANSWER
                )
            else:
                self._transport.write(_ANSWER)


@dataclass(slots=True, frozen=True)
class Receiver:
    """A running receiver."""

    process: asyncio.subprocess.Process
    port: int

    @property
    def url(self) -> str:
        """Return the address it listens on."""
        return f"http://127.0.0.1:{self.port}/hook"

    def cpu_seconds(self) -> float:
        """Return how much of a processor it has used."""
        times = psutil.Process(self.process.pid).cpu_times()
        return float(times.user + times.system)

    async def count(self) -> int:
        """Ask how many webhooks have arrived."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(_COUNT + b" HTTP/1.1\r\n\r\n")
        head = await reader.readuntil(_END)
        body = await reader.readexactly(int(head.rsplit(b" ", 1)[1]))
        writer.close()
        return int(body)


@asynccontextmanager
async def receiving(answer_seconds: float = 0.0) -> AsyncIterator[Receiver]:
    """Run a receiver until the block ends; it takes so long for each answer."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "postdate_lab.bench.receiver",
        str(answer_seconds),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    if process.stdout is None or process.stdin is None:
        raise RuntimeError("the receiver has no pipes")
    try:
        yield Receiver(process, int(await process.stdout.readline()))
    finally:
        process.stdin.close()
        await process.wait()


async def _serve() -> None:
    loop = asyncio.get_running_loop()
    Counting.answer_seconds = float(sys.argv[1])
    server = await loop.create_server(Counting, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


if __name__ == "__main__":
    uvloop.run(_serve())
