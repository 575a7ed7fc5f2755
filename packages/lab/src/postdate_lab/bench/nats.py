"""A NATS server of the measurement's own, with one stream."""

import asyncio
import itertools
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import nats
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig

from postdate.words.error import StartError
from postdate_lab.bench.machine import free_port
from postdate_lab.bench.testbed import percentile

SUBJECT: Final = "events"
PAGE: Final = 1000
START_SECONDS: Final = 10.0
_numbers: Final = itertools.count(1)


class Lags(NamedTuple):
    """Milliseconds from an event's own time to its place in the stream."""

    p50: float
    p99: float


class _Envelope(msgspec.Struct):
    time: datetime


@dataclass(slots=True, frozen=True)
class Nats:
    """A running server, seen by its client."""

    url: str
    stream: JetStreamContext
    subject: str = SUBJECT

    async def until(self, count: int, seconds: float = 600) -> None:
        """Wait until the stream holds so many messages."""
        async with asyncio.timeout(seconds):
            while (await self.stream.stream_info(SUBJECT)).state.messages < count:  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    async def lags(self) -> Lags:
        """Read every message and sum up how late it came."""
        unasked = ConsumerConfig(ack_policy=AckPolicy.NONE)
        reader = await self.stream.pull_subscribe(SUBJECT, "reader", config=unasked)
        left = (await self.stream.stream_info(SUBJECT)).state.messages
        found: list[float] = []
        while left:
            messages = await reader.fetch(min(left, PAGE), timeout=10)
            left -= len(messages)
            for message in messages:
                answer = msgspec.json.decode(message.data, type=_Envelope).time
                found.append((message.metadata.timestamp - answer).total_seconds() * 1000)
        return Lags(percentile(found, 0.5), percentile(found, 0.99))


@asynccontextmanager
async def nats_server(home: Path) -> AsyncIterator[Nats]:
    """Start a server with an empty stream, and end it."""
    binary, port = _need(), free_port()
    store = home / f"nats-{next(_numbers)}"
    process = await asyncio.create_subprocess_exec(
        binary, "-a", "127.0.0.1", "-p", str(port), "-js", "-sd", store,
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        await _answers(port)
        client = await nats.connect(f"nats://127.0.0.1:{port}")
        stream = client.jetstream()
        await stream.add_stream(name=SUBJECT, subjects=[SUBJECT])
        yield Nats(f"nats://127.0.0.1:{port}", stream)
        await client.close()
    finally:
        process.terminate()
        await process.wait()
        shutil.rmtree(store, ignore_errors=True)


def _need() -> str:
    beside = Path(sys.executable).with_name("nats-server")
    binary = str(beside) if beside.exists() else shutil.which("nats-server")
    if binary is None:
        raise StartError("there is no nats-server: run `uv sync --group bench`")
    return binary


async def _answers(port: int) -> None:
    async with asyncio.timeout(START_SECONDS):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.02)
            else:
                writer.close()
                return
