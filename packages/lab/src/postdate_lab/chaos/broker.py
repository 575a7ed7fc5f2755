"""A NATS server of the run's own: killed and started again, its stream read at the end."""

import asyncio
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from postdate_lab.chaos.process import Process, free_port

SUBJECT: Final = "chaos"
START_SECONDS: Final = 20.0
PAGE: Final = 500


class Broker:
    """One server with one stream."""

    def __init__(self, process: Process, port: int) -> None:
        self.process = process
        self.url = f"nats://127.0.0.1:{port}"

    async def prepare(self) -> None:
        """Make the stream."""
        import nats

        async with asyncio.timeout(START_SECONDS):
            client = await nats.connect(self.url, max_reconnect_attempts=-1)
            await client.jetstream().add_stream(name=SUBJECT, subjects=[f"{SUBJECT}.>"])
            await client.close()

    async def messages(self) -> AsyncIterator[tuple[str, str, str]]:
        """Read the stream from its beginning: subject, message id and body of each."""
        import nats
        from nats.js.api import AckPolicy, ConsumerConfig

        client = await nats.connect(self.url, connect_timeout=int(START_SECONDS))
        stream = client.jetstream()
        left = (await stream.stream_info(SUBJECT)).state.messages
        unasked = ConsumerConfig(ack_policy=AckPolicy.NONE)
        reader = await stream.pull_subscribe(f"{SUBJECT}.>", "reader", config=unasked)
        while left > 0:
            page = await reader.fetch(min(left, PAGE), timeout=START_SECONDS)
            left -= len(page)
            for each in page:
                message_id = (each.headers or {}).get("Nats-Msg-Id", "")
                yield each.subject, message_id, each.data.decode()
        await client.close()


@asynccontextmanager
async def brokering(home: Path) -> AsyncIterator[Broker | None]:
    """Run a server where its binary is installed; else there are no queues in this run."""
    beside = Path(sys.executable).with_name("nats-server")
    binary = str(beside) if beside.exists() else shutil.which("nats-server")
    if binary is None:
        yield None
        return
    port = free_port()
    command = [binary, "-a", "127.0.0.1", "-p", str(port), "-js", "-sd", str(home / "nats")]
    process = Process("broker", command, home / "broker.log")
    await process.keep()
    try:
        broker = Broker(process, port)
        await broker.prepare()
        yield broker
    finally:
        await process.end()
